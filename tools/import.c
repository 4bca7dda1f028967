/* import: from interchange JSON to a tape. */
#include "progress.h"
#include "verbs.h"

static int run(const args *args)
{
  const char *out = arg(args, "output");
  if (!out || !*out) return trouble(args, "expected -o OUT.tape");
  td_error err;
  td_import_report report;
  int64_t level;
  if (!number_arg(args, "level", 9, &level)) return EXIT_TROUBLE;
  if (level > 19) return trouble(args, "--level %lld: expected 1 to 19", (long long)level);
  remove_tape_on_signal(out);
  progress_begin("importing");
  td_status status = td_import(args->operands[0], out, &(td_import_options){.zstd_level = (int)level}, &report, &err);
  progress_end();
  remove_on_signal(NULL, NULL);
  if (status) return failed(args, &err);
  if (arg(args, "json")) {
    cJSON *json = cJSON_CreateObject();
    json_u64(json, "ops", report.ops);
    json_u64(json, "accesses", report.accesses);
    json_u64(json, "storages", report.storages);
    json_u64(json, "schedules", report.schedules);
    return json_print(args, json);
  }
  char ops[32], accesses[32], storages[32];
  printf("%s: %s ops, %s accesses, %s storages\n", out, with_commas(report.ops, ops), with_commas(report.accesses, accesses),
         with_commas(report.storages, storages));
  return EXIT_DONE;
}

static const option_def options[] = {{"output", "OUT.tape", "the tape to write", 'o'},
                                     {"level", "N", "of compression, from 1 fast to 19 small; default: 9", '\0'},
                                     OPTION_JSON,
                                     {0}};

const verb verb_import = {
    .name = "import",
    .operands = "IN -o OUT.tape",
    .n_operands = 1,
    .summary = "Make a tape from a trace in interchange JSON",
    .details = "IN may be plain, .gz or .zst; its content says which.",
    .example = "tapedeck import step.json.zst -o step.tape",
    .options = options,
    .run = run,
};
