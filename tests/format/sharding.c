/* Sharding plans: placements as text, freezing and thawing. */
#include <criterion/criterion.h>

#include <string.h>

#include <cjson/cJSON.h>

#include <tapedeck/sharding.h>

#include "format/fixture.h"

static td_error err;

/* ---- placements ----------------------------------------------------------------------------------------------- */

static void expect_text(const char *text, const char *canonical)
{
  td_placement p;
  char *back;
  cr_assert_eq(td_placement_parse(text, strlen(text), &p, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_placement_format(&p, &back, &err), TD_OK, "%s", err.message);
  cr_expect_str_eq(back, canonical);
  free(back);
}

Test(sharding, placements_are_read_and_written)
{
  expect_text("R", "R");
  expect_text("S(0)", "S(0)");
  expect_text("S( +1 )", "S(1)");
  expect_text("S(-1)", "S(-1)");
  expect_text("S(-2147483648)", "S(-2147483648)");
  expect_text("SS( 2 , 8 )", "SS(2,8)");
  expect_text("P(a,b)", "P(a,b)");
  td_placement p;
  cr_assert_eq(td_placement_parse("SS(-2,4)", 8, &p, &err), TD_OK);
  cr_expect(p.kind == TD_STRIDED_SHARD && p.dim == 1 && p.uneven && p.split_factor == 4);
}

Test(sharding, what_is_no_placement_is_told)
{
  static const char *const bad[][2] = {
      {"", "empty"},           {"S", "unknown form"},       {"S()", "invalid dim"},       {"S(0,1)", "too many args"},
      {"P()", "missing"},      {"SS(0)", "expected SS("},   {"SS(0,0)", "split_factor"},  {"SS(0,-1)", "split_factor"},
      {"R ", "unknown form"},  {"s(0)", "unknown form"},    {"S(2147483648)", "invalid"}, {"S(0x1)", "invalid dim"},
      {"P(a\nb)", "unknown"},  {"S(1 2)", "invalid dim"},   {"S(+)", "invalid dim"},      {"SS(0,1,2)", "expected SS("},
  };
  td_placement p;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_eq(td_placement_parse(bad[i][0], strlen(bad[i][0]), &p, &err), TD_E_INPUT, "%s", bad[i][0]);
    cr_expect_not_null(strstr(err.message, bad[i][1]), "%s: %s", bad[i][0], err.message);
  }
  char *text;
  cr_expect_eq(td_placement_format(&(td_placement){.kind = TD_SHARD, .dim = -1}, &text, &err), TD_E_INPUT);
  cr_expect_eq(td_placement_format(&(td_placement){.kind = TD_SHARD, .dim = -1, .uneven = true}, &text, &err), TD_E_INPUT);
  cr_expect_eq(td_placement_format(&(td_placement){.kind = TD_PARTIAL, .reduce_op = ""}, &text, &err), TD_E_INPUT);
}

/* ---- plans ---------------------------------------------------------------------------------------------------- */

#define SHARD0 "{\"type\": \"Shard\", \"dim\": 0, \"uneven_shard\": false}"

static const char live[] =
    "{\"modules\": {\"a\": {\"params\": {\"w\": {\"tp\": " SHARD0 "}, \"b\": {\"tp\": {\"type\": \"Replicate\"}}}, \"in_src\": {\"x\": "
    "[" SHARD0 ", null, 3]}, \"out_names\": [], \"tp_divide_attrs\": [], \"is_boundary\": false, \"_ep_size\": 0, \"_ep_stack\": {}, "
    "\"inner_wrapper\": {\"to_dict\": {\"k\": 1}}, \"local_compute_fn\": {\"callable\": \"f\"}}, \"\": {\"params\": {\"w\": {\"tp\": "
    SHARD0 "}}}, \"c\": {}}, \"classes\": {\"a\": \"A\", \"\": \"Root\", \"c\": \"C\"}, \"tied_pairs\": [[\"a.w\", \"c.w\"]], "
    "\"special_handlers\": {\"a.w\": \"h\"}, \"mesh_dim_names\": [\"tp\"]}";

static const char frozen[] =
    "{\"param_plan\":{\"a\":{\"params\":{\"w\":{\"tp\":\"S(0)\"},\"b\":{\"tp\":\"R\"}},\"in_src\":{\"x\":[\"S(0)\",null,3]},"
    "\"tp_divide_attrs\":[],\"is_boundary\":false},\"\":{\"params\":{\"w\":{\"tp\":\"S(0)\"}}},\"c\":{}},"
    "\"injections\":[{\"match\":\"a\",\"inner_wrapper\":{\"k\":1},\"local_compute_fn\":\"f\"}],\"tied_pairs\":[[\"a.w\",\"c.w\"]],"
    "\"special_handlers\":{\"a.w\":\"h\"},\"frozen_sharded_params\":[\"a.w\",\"w\"],"
    "\"boundary_classes\":{\"a\":\"A\",\"\":\"Root\",\"c\":\"C\"},\"mesh_dim_names\":[\"tp\"]}";

/* Without white space, as it was given. */
static char *minified(char *text)
{
  cJSON_Minify(text);
  return text;
}

static char *freeze(const char *text)
{
  char *out = NULL;
  cr_assert_eq(td_sharding_freeze(text, &out, &err), TD_OK, "%s", err.message);
  return out;
}

Test(sharding, a_plan_freezes_to_the_seven_keys_in_the_order_of_the_table)
{
  char *text = minified(freeze(live));
  cr_expect_str_eq(text, frozen);
  free(text);
  text = minified(freeze("null"));
  cr_expect_str_eq(text, "{\"param_plan\":{},\"injections\":[],\"tied_pairs\":[],\"special_handlers\":{},"
                         "\"frozen_sharded_params\":[],\"boundary_classes\":{},\"mesh_dim_names\":[]}");
  free(text);
}

Test(sharding, what_was_thawed_freezes_to_the_same_bytes)
{
  char *first = freeze(live), *thawed = NULL;
  cr_assert_eq(td_sharding_thaw(first, &thawed, &err), TD_OK, "%s", err.message);
  char *second = freeze(thawed);
  cr_expect_str_eq(first, second);
  free(first);
  free(second);
  free(thawed);
}

Test(sharding, what_cannot_be_frozen_is_told_with_its_place)
{
#define MODULE(fields) "{\"modules\": {\"m.n\": {" fields "}}}"
  static const char *const bad[][2] = {
      {"[1]", "an object or null"},
      {"{\"moduls\": {}}", "moduls: unknown field"},
      {MODULE("\"param\": {}"), "m.n: param: unknown field"},
      {MODULE("\"params\": {\"w\": {\"tp\": null}}"), "m.n: params: expected a placement"},
      {MODULE("\"params\": {\"w\": {\"tp\": \"S(0)\"}}"), "expected a placement"},
      {MODULE("\"params\": {\"w\": {\"tp\": {\"type\": \"Shared\"}}}"), "unknown placement type 'Shared'"},
      {MODULE("\"params\": {\"w\": {\"tp\": {\"type\": \"Shard\", \"dim\": -1}}}"), "negative dimension"},
      {MODULE("\"params\": {\"w\": {\"tp\": {\"type\": \"Shard\", \"dim\": 0.5}}}"), "a whole number"},
      {MODULE("\"params\": {\"w\": {\"tp\": {\"type\": \"Partial\", \"reduce_op\": \"\"}}}"), "reduce op"},
      {MODULE("\"in_src\": {\"x\": \"R\"}"), "text where a placement may stand"},
      {MODULE("\"out_names\": \"x\""), "expected a list"},
      {"{\"modules\": {\"m\": {}}, \"classes\": {}}", "m: classes: no class is given"},
      {"{\"tied_pairs\": [[\"a\"]]}", "a tied pair is two names"},
      {"{\"tied_pairs\": [[\"a\", \"b\", \"c\"]]}", "a tied pair is two names"},
      {"{\"mesh_dim_names\": [\"tp\", \"tp\"]}", "an axis is named twice"},
      {"{\"modules\": ", "not JSON"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *out = NULL;
    cr_expect_eq(td_sharding_freeze(bad[i][0], &out, &err), TD_E_INPUT, "%s", bad[i][0]);
    cr_expect_not_null(strstr(err.message, bad[i][1]), "%s: %s", bad[i][0], err.message);
    cr_expect_null(out);
  }
}

/* ---- recorded cases ------------------------------------------------------------------------------------------- */

static void check_case(const cJSON *c)
{
  const char *text = cJSON_GetObjectItem(c, "text")->valuestring;
  const cJSON *parsed = cJSON_GetObjectItem(c, "parsed"), *error = cJSON_GetObjectItem(parsed, "error");
  td_placement p;
  td_status status = td_placement_parse(text, strlen(text), &p, &err);
  cr_assert_eq(status, error ? TD_E_INPUT : TD_OK, "%s", text);
  if (error) {
    cr_expect_not_null(strstr(err.message, error->valuestring), "%s: %s", text, err.message);
    return;
  }
  static const char *const types[] = {"Replicate", "Shard", "Partial", "StridedShard"};
  cr_expect_str_eq(types[p.kind], cJSON_GetObjectItem(parsed, "type")->valuestring);
  const cJSON *dim = cJSON_GetObjectItem(parsed, "dim"), *uneven = cJSON_GetObjectItem(parsed, "uneven_shard");
  if (dim) cr_expect_eq(p.dim, (int)dim->valuedouble, "%s", text);
  if (uneven) cr_expect_eq(p.uneven, cJSON_IsTrue(uneven), "%s", text);
}

Test(sharding, the_recorded_cases)
{
  char *file = read_file(TD_SHARED "/sharding/vectors.json", NULL);
  if (!file) return;
  cJSON *cases = cJSON_Parse(file), *c;
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(cases, "placements")) check_case(c);
  cJSON_ArrayForEach(c, cJSON_GetObjectItem(cases, "freeze"))
  {
    char *text = cJSON_Print(cJSON_GetObjectItem(c, "live")), *got = freeze(text), *thawed = NULL;
    char *wanted = cJSON_Print(cJSON_GetObjectItem(c, "frozen"));
    cr_expect_str_eq(got, wanted);
    cr_assert_eq(td_sharding_thaw(got, &thawed, &err), TD_OK, "%s", err.message);
    char *again = freeze(thawed);
    cr_expect_str_eq(again, got);
    free(text);
    free(got);
    free(thawed);
    free(wanted);
    free(again);
  }
  cJSON_Delete(cases);
  free(file);
}
