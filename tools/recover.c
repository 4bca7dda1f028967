/* recover: save what can be read of a damaged or unfinished tape. */
#include "progress.h"
#include "verbs.h"

static void print_loss(void *context, const char *line)
{
  cJSON *lost = context;
  if (lost) cJSON_AddItemToArray(lost, cJSON_CreateString(line));
  else puts(line);
}

static int run(const args *args)
{
  const char *out = arg(args, "output");
  td_recover_report report;
  td_error err;
  int64_t trace;
  char ops[32], lost[32];
  if (!out || !*out) return trouble(args, "expected -o OUT.tape");
  if (!number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  if (would_lose(args, out, args->operands[0])) return EXIT_TROUBLE;
  cJSON *list = arg(args, "json") ? cJSON_CreateArray() : NULL;
  remove_tape_on_signal(out);
  progress_begin("recovering");
  td_status status = td_recover(args->operands[0], out, trace, print_loss, list, &report, &err);
  progress_end();
  remove_on_signal(NULL, NULL);
  if (status) {
    cJSON_Delete(list);
    return failed(args, &err);
  }
  if (list) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "whole", report.whole);
    json_u64(json, "ops", report.ops);
    json_u64(json, "lost_ops", report.lost_ops);
    cJSON_AddItemToObject(json, "lost", list);
    return json_print(args, json);
  }
  printf("%s: %s ops saved, %s lost%s\n", out, with_commas(report.ops, ops), with_commas(report.lost_ops, lost),
         report.whole ? "; it is whole" : "");
  return EXIT_DONE;
}

static const option_def options[] = {{"output", "OUT.tape", "the tape to write", 'o'}, OPTION_TRACE, OPTION_JSON, {0}};

const verb verb_recover = {
    .name = "recover",
    .operands = "IN -o OUT.tape",
    .n_operands = 1,
    .summary = "Save every whole op of a damaged or unfinished tape",
    .details = "What is missing is told line by line. The new trace is complete only if nothing was lost.",
    .example = "tapedeck recover step.tape.part -o saved.tape",
    .options = options,
    .run = run,
};
