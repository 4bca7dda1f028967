/* import: from interchange JSON or a PyTorch execution trace to a tape. */
#include "progress.h"
#include "verbs.h"

static int print_json(const args *args, const td_import_report *report)
{
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "ops", report->ops);
  json_u64(json, "accesses", report->accesses);
  json_u64(json, "storages", report->storages);
  json_u64(json, "schedules", report->schedules);
  if (report->execution_trace) {
    json_u64(json, "nodes", report->nodes);
    json_u64(json, "skipped", report->skipped);
    json_u64(json, "split_sids", report->split_sids);
    json_u64(json, "added_sids", report->added_sids);
  }
  if (arg(args, "profile")) {
    json_u64(json, "timed_ops", report->timed_ops);
    json_u64(json, "renamed_ops", report->renamed_ops);
  }
  return json_print(args, json);
}

static void print_text(const args *args, const char *out, const td_import_report *report)
{
  char ops[32], accesses[32], storages[32], other[32];
  printf("%s: %s ops, %s accesses, %s storages\n", out, with_commas(report->ops, ops), with_commas(report->accesses, accesses),
         with_commas(report->storages, storages));
  if (!report->execution_trace) return;
  printf("nodes     %s, of which %s have no operator schema and were skipped\n", with_commas(report->nodes, ops),
         with_commas(report->skipped, other));
  if (arg(args, "keep-ids")) puts("SIDs      storage ids as they are; one may stand for several storages");
  else
    printf("SIDs      %s storage ids were reused and split; %s storages got SIDs of their own\n",
           with_commas(report->split_sids, ops), with_commas(report->added_sids, other));
  if (!arg(args, "profile")) return;
  printf("profile   has the duration of %s of the ops", with_commas(report->timed_ops, ops));
  if (report->renamed_ops)
    printf(", %s of them under another name: is it of the same run?", with_commas(report->renamed_ops, other));
  putchar('\n');
}

static int run(const args *args)
{
  const char *out = arg(args, "output");
  if (!out || !*out) return trouble(args, "expected -o OUT.tape");
  td_error err;
  td_import_report report;
  int64_t level;
  if (!number_arg(args, "level", 9, &level)) return EXIT_TROUBLE;
  if (level > 19) return trouble(args, "--level %lld: expected 1 to 19", (long long)level);
  const td_import_options how = {.zstd_level = (int)level, .profile = arg(args, "profile"), .keep_ids = arg(args, "keep-ids")};
  if (would_lose(args, out, args->operands[0])) return EXIT_TROUBLE;
  remove_tape_on_signal(out);
  progress_begin("importing");
  td_status status = td_import(args->operands[0], out, &how, &report, &err);
  progress_end();
  remove_on_signal(NULL, NULL);
  if (status) return failed(args, &err);
  if (arg(args, "json")) return print_json(args, &report);
  print_text(args, out, &report);
  return EXIT_DONE;
}

static const option_def options[] = {{"output", "OUT.tape", "the tape to write", 'o'},
                                     {"profile", "FILE", "a Kineto trace of the same run, which has the durations", '\0'},
                                     {"keep-ids", NULL, "do not tell apart storages that reuse an id", '\0'},
                                     {"level", "N", "of compression, from 1 fast to 19 small; default: 9", '\0'},
                                     OPTION_JSON,
                                     {0}};

const verb verb_import = {
    .name = "import",
    .operands = "IN -o OUT.tape",
    .n_operands = 1,
    .summary = "Make a tape from interchange JSON or a PyTorch execution trace",
    .details = "IN may be plain, .gz or .zst; its content says which, and which form it has. --profile and --keep-ids are for\n"
               "execution traces (schema 1.0.1 and later 1.x).",
    .example = "tapedeck import step.json.zst -o step.tape",
    .options = options,
    .run = run,
};
