/* Sharding plans as objects: built, compared, known by a digest; and the table that both directions walk. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/sharding_fields.h"

static td_error err;

static td_sharding *read_plan(const char *json)
{
  td_sharding *plan = NULL;
  cr_assert_eq(td_sharding_read(&plan, json, &err), TD_OK, "%s: %s", json, err.message);
  return plan;
}

static char *frozen_text(const td_sharding *plan)
{
  char *text = NULL;
  cr_assert_eq(td_sharding_frozen_text(plan, &text, &err), TD_OK, "%s", err.message);
  cJSON_Minify(text);
  return text;
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

/* Ours with one field more, in the middle. */
static td_sharding_table with_field(td_sharding_field *fields)
{
  size_t n = 0;
  for (size_t i = 0; i < td_sharding_fields.n; i++) {
    fields[n++] = td_sharding_fields.fields[i];
    if (strcmp(fields[n - 1].live, "out_dst") == 0)
      fields[n++] = (td_sharding_field){"_inner_dst", "inner_dst", TD_PARAM_PLAN, TD_NOT_EMPTY, TD_NESTED};
  }
  return (td_sharding_table){fields, n};
}

Test(sharding_plans, a_field_in_the_table_is_frozen_and_thawed)
{
  td_sharding_field fields[32];
  td_sharding_table table = with_field(fields);
  td_sharding_job j = {.err = &err};
  const char *text = "{\"modules\": {\"m\": {\"_inner_dst\": {\"x\": {\"type\": \"Shard\", \"dim\": 1}}, \"out_names\": [\"o\"], \"out_dst\": 3}}}";
  cJSON *live = td_sharding_parse(&j, text), *frozen = td_sharding_freeze_tree(&j, &table, live);
  cr_assert_eq(j.status, TD_OK, "%s", err.message);
  char *entry = cJSON_PrintUnformatted(cJSON_GetObjectItem(cJSON_GetObjectItem(frozen, "param_plan"), "m"));
  cr_expect_str_eq(entry, "{\"out_dst\":3,\"inner_dst\":{\"x\":\"S(1)\"},\"out_names\":[\"o\"]}");
  cJSON *thawed = td_sharding_thaw_tree(&j, &table, frozen);
  char *spec = cJSON_PrintUnformatted(cJSON_GetObjectItem(cJSON_GetObjectItem(thawed, "modules"), "m"));
  cr_expect_str_eq(spec, "{\"out_dst\":3,\"_inner_dst\":{\"x\":{\"type\":\"Shard\",\"dim\":1,\"uneven_shard\":false}},\"out_names\":[\"o\"]}");
  /* Without it both directions refuse the field. */
  cr_expect_null(td_sharding_freeze_tree(&j, &td_sharding_fields, live));
  cr_expect_str_eq(err.message, "m: _inner_dst: unknown field");
  j.status = TD_OK;
  cr_expect_null(td_sharding_thaw_tree(&j, &td_sharding_fields, frozen));
  cr_expect_str_eq(err.message, "m: inner_dst: unknown field");
  free(entry);
  free(spec);
  cJSON_Delete(live);
  cJSON_Delete(frozen);
  cJSON_Delete(thawed);
}

/* ---- building ------------------------------------------------------------------------------------------------- */

Test(sharding_plans, a_plan_is_built_module_by_module)
{
  td_sharding *plan;
  const td_placement shard = {.kind = TD_SHARD, .dim = 1}, part = {.kind = TD_PARTIAL, .reduce_op = "sum!", .reduce_op_length = 3};
  cr_assert_eq(td_sharding_create(&plan, &err), TD_OK);
  cr_expect_eq(td_sharding_add_module(plan, "a", "A", &err), TD_OK);
  cr_expect_eq(td_sharding_add_module(plan, "b", "B", &err), TD_OK);
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "tp", &shard, &err), TD_OK);
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "dp", &(td_placement){.kind = TD_REPLICATE}, &err), TD_OK);
  cr_expect_eq(td_sharding_add_placement(plan, "b", "v", "tp", &part, &err), TD_OK);
  cr_expect_eq(td_sharding_add_field(plan, "a", "inner_wrapper", "{\"to_dict\": {\"k\": 1}}", &err), TD_OK);
  cr_expect_eq(td_sharding_add_tie(plan, "a.w", "b.v", &err), TD_OK);
  cr_expect_eq(td_sharding_add_handler(plan, "a.w", "\"h\"", &err), TD_OK);
  cr_expect_eq(td_sharding_add_axis(plan, "dp", &err), TD_OK);
  cr_expect_eq(td_sharding_add_axis(plan, "tp", &err), TD_OK);
  char *text = frozen_text(plan);
  cr_expect_str_eq(text, "{\"param_plan\":{\"a\":{\"params\":{\"w\":{\"tp\":\"S(1)\",\"dp\":\"R\"}}},\"b\":{\"params\":{\"v\":{\"tp\":\"P(sum)\"}}}},"
                         "\"injections\":[{\"match\":\"a\",\"inner_wrapper\":{\"k\":1}}],\"tied_pairs\":[[\"a.w\",\"b.v\"]],"
                         "\"special_handlers\":{\"a.w\":\"h\"},\"frozen_sharded_params\":[\"a.w\",\"b.v\"],"
                         "\"boundary_classes\":{\"a\":\"A\",\"b\":\"B\"},\"mesh_dim_names\":[\"dp\",\"tp\"]}");
  free(text);
  cr_assert_eq(td_sharding_live_text(plan, &text, &err), TD_OK);
  td_sharding *again = read_plan(text);
  free(text);
  char first[33], second[33];
  cr_expect_eq(td_sharding_digest(plan, first, &err), TD_OK);
  cr_expect_eq(td_sharding_digest(again, second, &err), TD_OK);
  cr_expect_str_eq(first, second);
  td_sharding_destroy(again);
  td_sharding_destroy(plan);
}

Test(sharding_plans, what_cannot_be_added_is_told)
{
  td_sharding *plan;
  const td_placement shard = {.kind = TD_SHARD}, negative = {.kind = TD_SHARD, .dim = -1};
  cr_assert_eq(td_sharding_create(&plan, &err), TD_OK);
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "tp", &shard, &err), TD_E_NOT_FOUND);
  cr_expect_str_eq(err.message, "a: the plan has no such module");
  cr_expect_eq(td_sharding_add_module(plan, "a", NULL, &err), TD_OK);
  cr_expect_eq(td_sharding_add_module(plan, "a", NULL, &err), TD_E_INPUT);
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "tp", &shard, &err), TD_OK);
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "tp", &shard, &err), TD_E_INPUT);
  cr_expect_str_eq(err.message, "a: w: given twice");
  cr_expect_eq(td_sharding_add_placement(plan, "a", "w", "dp", &negative, &err), TD_E_INPUT);
  cr_expect_eq(td_sharding_add_field(plan, "a", "in_source", "{}", &err), TD_E_INPUT);
  cr_expect_str_eq(err.message, "a: in_source: unknown field");
  cr_expect_eq(td_sharding_add_field(plan, "a", "in_src", "{\"x\": \"R\"}", &err), TD_E_INPUT);
  cr_expect_eq(td_sharding_add_field(plan, "a", "in_src", "{", &err), TD_E_INPUT);
  cr_expect_eq(td_sharding_add_field(plan, "a", "_ep_size", "\"4\"", &err), TD_E_INPUT);
  cr_expect_eq(td_sharding_add_axis(plan, "tp", &err), TD_OK);
  cr_expect_eq(td_sharding_add_axis(plan, "tp", &err), TD_E_INPUT);
  /* What failed left nothing behind. */
  char *text = frozen_text(plan);
  cr_expect_not_null(strstr(text, "{\"a\":{\"params\":{\"w\":{\"tp\":\"S(0)\"}}}},\"injections\":[],"), "%s", text);
  free(text);
  /* A class for one module and none for another. */
  cr_expect_eq(td_sharding_add_module(plan, "b", "B", &err), TD_OK);
  cr_expect_eq(td_sharding_frozen_text(plan, &text, &err), TD_E_INPUT);
  td_sharding_destroy(plan);
}

/* ---- digests and differences ---------------------------------------------------------------------------------- */

#define S0 "{\"type\": \"Shard\", \"dim\": 0}"
#define S1 "{\"type\": \"Shard\", \"dim\": 1}"
#define R "{\"type\": \"Replicate\"}"
#define ONE "{\"modules\": {\"a\": {\"params\": {\"w\": {\"tp\": " S0 ", \"dp\": " R "}, \"v\": {}}, \"_ep_size\": 4}, \"b\": {\"_ep_size\": 2}}, \"mesh_dim_names\": [\"dp\", \"tp\"]}"
#define SAME "{\"mesh_dim_names\": [\"dp\", \"tp\"], \"modules\": {\"b\": {\"_ep_size\": 2}, \"a\": {\"_ep_size\": 4.0, \"params\": {\"v\": {}, \"w\": {\"dp\": " R ", \"tp\": " S0 "}}}}}"

static int list(void *context, const td_sharding_difference *d)
{
  char *text = context;
  sprintf(text + strlen(text), "%s|%s|%s|%s|%s\n", d->module ? d->module : "-", d->name, d->axis ? d->axis : "-", d->from ? d->from : "-",
          d->to ? d->to : "-");
  return strlen(text) > 3000;
}

static void expect_differences(const char *a, const char *b, const char *wanted)
{
  char text[4000] = "", first[33], second[33];
  td_sharding *one = read_plan(a), *other = read_plan(b);
  cr_assert_eq(td_sharding_diff(one, other, list, text, &err), TD_OK, "%s", err.message);
  cr_expect_str_eq(text, wanted);
  cr_expect_eq(td_sharding_digest(one, first, &err), TD_OK);
  cr_expect_eq(td_sharding_digest(other, second, &err), TD_OK);
  cr_expect_eq(strcmp(first, second) == 0, *wanted == '\0', "%s %s", first, second);
  td_sharding_destroy(one);
  td_sharding_destroy(other);
}

Test(sharding_plans, plans_are_the_same_whatever_the_order_of_keys)
{
  expect_differences(ONE, SAME, "");
  expect_differences("null", "{}", "");
  expect_differences("null", "{\"param_plan\": {}}", "");
}

Test(sharding_plans, differences_are_named_to_the_axis)
{
  expect_differences(ONE, "{\"modules\": {\"a\": {\"params\": {\"w\": {\"tp\": " S1 "}, \"u\": {\"tp\": " R "}}, \"in_src\": {\"x\": " S0 "}}, \"c\": {}}, "
                          "\"classes\": {\"a\": \"A\", \"c\": \"C\"}, \"special_handlers\": {\"a.w\": {\"h\": 1}}, \"mesh_dim_names\": [\"tp\"]}",
                     "a|w|tp|S(0)|S(1)\na|w|dp|R|-\na|v|-|{}|-\na|u|tp|-|R\na|in_src|-|-|{\"x\":\"S(0)\"}\nb|module|-|{}|-\nc|module|-|-|{}\n"
                     "a.w|special_handler|-|-|{\"h\":1}\na|boundary_class|-|-|\"A\"\nc|boundary_class|-|-|\"C\"\n"
                     "-|mesh_dim_names|-|[\"dp\",\"tp\"]|[\"tp\"]\na|ep_size|-|4|-\nb|ep_size|-|2|-\n");
}

static int stop(void *context, const td_sharding_difference *d)
{
  (void)d;
  return ++*(int *)context;
}

Test(sharding_plans, the_first_difference_is_enough_where_asked)
{
  int n = 0;
  td_sharding *one = read_plan(ONE), *none = read_plan("null");
  cr_expect_eq(td_sharding_diff(one, none, stop, &n, &err), TD_OK);
  cr_expect_eq(n, 1);
  td_sharding_destroy(one);
  td_sharding_destroy(none);
}

static void add_line(void *context, const char *line)
{
  strcat(strcat(context, line), "\n");
}

Test(sharding_plans, what_may_be_a_mistake_is_remarked)
{
  char text[2000] = "";
  td_sharding *plan = read_plan("{\"modules\": {\"a.b\": {\"params\": {\"w\": {\"tp\": " S0 ", \"ep\": " R "}, \"v\": {\"ep\": " S0 "}}}, \"\": {\"params\": {\"w\": "
                                "{\"cp\": " R "}}}}, \"tied_pairs\": [[\"a.b.w\", \"w\"], [\"w\", \"w\"], [\"w\", \"nowhere\"]], \"mesh_dim_names\": [\"tp\"]}");
  cr_assert_eq(td_sharding_remarks(plan, add_line, text, &err), TD_OK);
  cr_expect_str_eq(text, "axis 'ep' of a.b.w and 1 more is not in mesh_dim_names: it is taken to have size 1\n"
                         "axis 'cp' of w is not in mesh_dim_names: it is taken to have size 1\n"
                         "a.b.w and w are tied, but placed differently\n");
  td_sharding_destroy(plan);
}

/* ---- bad plans ------------------------------------------------------------------------------------------------ */

Test(sharding_plans, what_cannot_be_thawed_is_told_with_its_place)
{
  static const char *const bad[][2] = {
      {"{\"param_plan\": []}", "param_plan is an object"},
      {"{\"param_plan\": {\"m\": 3}}", "m: expected an object"},
      {"{\"param_plan\": {\"m\": {\"ep_size\": 3}}}", "m: ep_size: unknown field"},
      {"{\"param_plan\": {\"m\": {\"params\": {\"w\": {\"tp\": \"S(\"}}}}}", "m: params: placement 'S('"},
      {"{\"param_plan\": {\"m\": {\"params\": {\"w\": {\"tp\": 3}}}}}", "m: params: expected a placement"},
      {"{\"param_plan\": {\"m\": {\"params\": {\"w\": \"R\"}}}}", "m: params: expected an object of axes"},
      {"{\"injections\": {}}", "injections is a list"},
      {"{\"injections\": [3]}", "an injection has no match"},
      {"{\"injections\": [{\"match\": \"m\"}]}", "m: an injection for a module that is not there"},
      {"{\"param_plan\": {\"m\": {}}, \"injections\": [{\"match\": \"m\", \"ep\": 1}]}", "m: ep: unknown field"},
      {"{\"param_plan\": {\"m\": {}}, \"injections\": [{\"match\": \"m\", \"ep_size\": 1}, {\"match\": \"m\"}]}", "m: a second injection"},
      {"{\"param_plan\": {\"m\": {}}, \"injections\": [{\"match\": \"m\", \"ep_size\": \"1\"}]}", "m: ep_size: expected a number"},
      {"{\"param_plan\": {\"m\": {}}, \"injections\": [{\"match\": \"m\", \"ep_stack\": [1]}]}", "m: ep_stack: expected an object"},
      {"{\"frozen_sharded_params\": {}}", "frozen_sharded_params: expected a list"},
      {"{\"frozen_sharded_params\": [1]}", "frozen_sharded_params: expected a list of texts"},
      {"{\"boundary_classes\": {\"m\": 1}}", "boundary_classes: the name of a class is text"},
      {"{\"param_plan\": {}, \"tied_pairs\": [[\"a\", \"b\", \"c\"]]}", "tied_pairs: a tied pair is two names"},
      {"{\"param_plan\": {}, \"mesh_dim_names\": [\"a\", \"b\", \"a\"]}", "mesh_dim_names: an axis is named twice"},
      {"{\"param_plan\": {}, \"mesh_dim_names\": \"tp\"}", "mesh_dim_names: expected a list"},
      {"{\"param_plan\": {}, \"plan\": {}}", "plan: unknown field"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *out = NULL;
    cr_expect_eq(td_sharding_thaw(bad[i][0], &out, &err), TD_E_INPUT, "%s", bad[i][0]);
    cr_expect_not_null(strstr(err.message, bad[i][1]), "%s: %s", bad[i][0], err.message);
    cr_expect_null(out);
  }
}

Test(sharding_plans, hostile_text_is_refused)
{
  static const char *const bad[][2] = {
      {"{\"modules\": {\"m\": {}, \"m\": {}}}", "\"m\" stands twice"},
      {"{\"modules\": {\"m\": {\"params\": {\"w\": {\"tp\": " R ", \"tp\": " S0 "}}}}}", "\"tp\" stands twice"},
      {"{\"modules\": {\"m\": {\"params\": {\"w\": {\"tp\": {\"type\": \"Shard\", \"dim\": 0, \"axis\": 1}}}}}}", "unknown field 'axis' of a placement"},
      {"{\"modules\": {\"m\": {\"_ep_size\": 1e999}}}", "too large"},
      {"{\"classes\": {\"m\\u0000n\": \"x\"}}", "holds a NUL"},
      {"{} x", "not JSON"},
      {"\"a\\", "not JSON"},
      {"", "not JSON"},
  };
  td_sharding *plan = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_eq(td_sharding_read(&plan, bad[i][0], &err), TD_E_INPUT, "%s", bad[i][0]);
    cr_expect_not_null(strstr(err.message, bad[i][1]), "%s: %s", bad[i][0], err.message);
  }
  td_sharding_destroy(read_plan("{\"special_handlers\": {\"a\": \"\\\\u0000\"}}")); /* that is a backslash and a u */
  char deep[20001] = "";
  memset(deep, '[', 20000);
  cr_expect_eq(td_sharding_read(&plan, deep, &err), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "nested deeper"), "%s", err.message);
}

/* Once cJSON looked through all classes for each module; this took minutes. */
Test(sharding_plans, large_plans_take_no_squared_time, .timeout = 60)
{
  size_t n = 60000, length = 0;
  char *text = malloc(n * 60 + 200);
  length += (size_t)sprintf(text, "{\"modules\": {");
  for (size_t i = 0; i < n; i++) length += (size_t)sprintf(text + length, "%s\"m%zu\": {\"_ep_size\": 1}", i ? ", " : "", i);
  length += (size_t)sprintf(text + length, "}, \"classes\": {");
  for (size_t i = n; i-- > 0;) length += (size_t)sprintf(text + length, "%s\"m%zu\": \"M\"", i + 1 < n ? ", " : "", i);
  sprintf(text + length, "}}");
  td_sharding *plan = read_plan(text);
  char *frozen = frozen_text(plan), digest[33];
  td_sharding *again = read_plan(frozen);
  cr_expect_eq(td_sharding_digest(again, digest, &err), TD_OK);
  int n_differences = 0;
  cr_expect_eq(td_sharding_diff(plan, again, stop, &n_differences, &err), TD_OK);
  cr_expect_eq(n_differences, 0);
  free(text);
  free(frozen);
  td_sharding_destroy(plan);
  td_sharding_destroy(again);
}

/* ---- a property ----------------------------------------------------------------------------------------------- */

static uint64_t state;

static unsigned below(unsigned n)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % n;
}

static void put_placement(char *to)
{
  unsigned form = below(4);
  const char *uneven = below(2) ? "true" : "false";
  if (form == 0) strcat(to, R);
  else if (form == 2) sprintf(to + strlen(to), "{\"type\": \"Partial\", \"reduce_op\": \"op%u\"}", below(9));
  else if (form == 1) sprintf(to + strlen(to), "{\"type\": \"Shard\", \"dim\": %u, \"uneven_shard\": %s}", below(5), uneven);
  else sprintf(to + strlen(to), "{\"type\": \"StridedShard\", \"dim\": %u, \"uneven_shard\": %s, \"split_factor\": 3}", below(5), uneven);
}

static void put_nested(char *to, bool wrapped, unsigned depth)
{
  unsigned kind = below(depth ? 7 : 4);
  if (kind == 0) strcat(to, below(2) ? "null" : "12.5");
  else if (kind == 1 || kind == 2) put_placement(to);
  else if (kind == 3) strcat(to, !wrapped ? "true" : below(2) ? "{\"callable\": \"f\"}" : "{\"to_dict\": {\"type\": \"x\", \"y\": [1]}}");
  else {
    bool list = kind == 4;
    strcat(to, list ? "[" : "{");
    for (unsigned i = 0, n = below(4); i < n; i++) {
      if (i) strcat(to, ", ");
      if (!list) sprintf(to + strlen(to), "\"k%u\": ", i);
      put_nested(to, wrapped, depth - 1);
    }
    strcat(to, list ? "]" : "}");
  }
}

static void put_module(char *to)
{
  static const char *const nested[] = {"in_src", "in_dst", "out_src", "out_dst", "inner_wrapper", "inner_out_src", "local_compute_fn"};
  static const char *const rest[] = {"\"out_names\": [\"o\"]", "\"tp_divide_attrs\": []", "\"is_boundary\": false", "\"region_dispatch\": {\"a\": \"R\"}",
                                     "\"_deferred_bias_params\": [\"b\"]", "\"inner_target\": \"S(0)\"", "\"_ep_stack\": {\"e\": 1}", "\"_ep_size\": 8"};
  strcat(to, "{\"params\": {");
  for (unsigned i = 0, n = below(4); i < n; i++) {
    sprintf(to + strlen(to), "%s\"p%u\": {\"tp\": ", i ? ", " : "", i);
    put_placement(to);
    strcat(to, "}");
  }
  strcat(to, "}");
  for (unsigned i = 0; i < 7; i++) {
    if (below(2)) continue;
    sprintf(to + strlen(to), ", \"%s\": ", nested[i]);
    put_nested(to, i >= 4, 3);
  }
  for (unsigned i = 0; i < 8; i++)
    if (below(2)) strcat(strcat(to, ", "), rest[i]);
  strcat(to, "}");
}

Test(sharding_plans, a_freeze_of_a_thaw_of_a_freeze_is_the_same_bytes)
{
  for (unsigned seed = 1; seed <= 500; seed++) {
    char live[40000] = "{\"modules\": {", *first = NULL, *thawed = NULL, *second = NULL;
    state = seed;
    for (unsigned i = 0, n = below(4); i < n; i++) {
      sprintf(live + strlen(live), "%s\"m%u\": ", i ? ", " : "", i);
      put_module(live);
    }
    strcat(live, "}, \"mesh_dim_names\": [\"tp\"]}");
    cr_assert_eq(td_sharding_freeze(live, &first, &err), TD_OK, "seed %u: %s: %s", seed, err.message, live);
    cr_assert_eq(td_sharding_thaw(first, &thawed, &err), TD_OK, "seed %u: %s", seed, err.message);
    cr_assert_eq(td_sharding_freeze(thawed, &second, &err), TD_OK, "seed %u: %s", seed, err.message);
    cr_expect_str_eq(first, second);
    free(first);
    free(thawed);
    free(second);
  }
}
