/* PyTorch execution traces: every rule of docs/import.md on traces of a few nodes. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include <tapedeck/trace.h>

#include "format/et_nodes.h"
#include "format/fixture.h"
#include "temp_dir.h"

static temp_dir dir;
static td_error err;
static td_import_report report;

static void create(void)
{
  dir = temp_dir_create();
}

static void destroy(void)
{
  temp_dir_remove(&dir);
}

TestSuite(et, .init = create, .fini = destroy);

/* ---- traces --------------------------------------------------------------------------------------------------- */

#define HEAD(schema) "{\"schema\": \"" schema "\", \"pid\": 7, \"nodes\": ["
#define TAIL "], \"finish_ts\": 9}"
#define ROOT "{\"id\": 1, \"name\": \"root\", \"ctrl_deps\": 1, \"attrs\": []}"
#define NODE(id, name, parent, schema, in, out)                                                                        \
  "{\"id\": " id ", \"name\": \"" name "\", \"ctrl_deps\": " parent ", \"inputs\": {\"values\": [" in "], \"shapes\": [], \"types\": []}, "   \
  "\"outputs\": {\"values\": [" out "], \"shapes\": [], \"types\": [], \"strides\": []}, \"attrs\": [{\"name\": \"rf_id\", \"type\": "        \
  "\"uint64\", \"value\": " id "0}, {\"name\": \"op_schema\", \"type\": \"string\", \"value\": \"" schema "\"}]}"
#define OLD_NODE(id, name, parent, schema, in, out)                                                                    \
  "{\"name\": \"" name "\", \"id\": " id ", \"rf_id\": " id "0, \"parent\": " parent ", \"op_schema\": \"" schema "\", \"inputs\": [" in      \
  "], \"input_shapes\": [], \"outputs\": [" out "]}"
#define T(tensor, storage, numel) "[" tensor ", " storage ", 0, " numel ", 4, \"cuda:0\"]"
#define MM "aten::mm(Tensor self, Tensor mat2) -> Tensor"
#define EMPTY "aten::empty.memory_format(SymInt[] size) -> Tensor"
#define TRACE(nodes) HEAD("1.1.0-chakra.0.0.4") ROOT ", " nodes TAIL

static td_status import_with(const char *text, const td_import_options *options)
{
  write_file(temp_file(&dir, "in.json"), text, strlen(text));
  return td_import(temp_file(&dir, "in.json"), temp_file(&dir, "out.tape"), options, &report, &err);
}

/* What stands in the trace from "ops" on, as interchange JSON. */
static char *interchange(void)
{
  td_tape *tape;
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  cr_assert_eq(td_tape_open(&tape, temp_file(&dir, "out.tape"), &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_export(tape, TD_NEWEST, out, &err), TD_OK, "%s", err.message);
  td_tape_close(tape);
  fclose(out);
  return text;
}

static void expect_with(const char *text, const td_import_options *options, const char *wanted)
{
  cr_assert_eq(import_with(text, options), TD_OK, "%s", err.message);
  char *got = interchange(), *ops = strstr(got, "\"ops\"");
  cr_expect_str_eq(ops, wanted);
  free(got);
}

static void expect(const char *text, const char *wanted)
{
  expect_with(text, NULL, wanted);
}

static void expect_refused(const char *text, const char *message)
{
  unlink(temp_file(&dir, "out.tape"));
  cr_expect_neq(import_with(text, NULL), TD_OK, "%s", message);
  cr_expect_not_null(strstr(err.message, message), "%s: %s", message, err.message);
  cr_expect_eq(temp_dir_count(&dir), 1, "a failed import left a file");
}

#define OPS(ops, storages, activations)                                                                                \
  "\"ops\": [\n" ops "\n],\n\"storages\": {" storages "},\n\"activation_sids\": [" activations "],\n\"retained\": []}\n"
#define OP(name, leaves, out, acc) "{\"name\": \"" name "\", \"dur_ns\": 0, \"leaves\": " leaves ", \"out\": [" out "], \"acc\": [" acc "]}"

#define ONE_MM OPS(OP("aten::mm", "1", "[0, 7]", "[3, \"R\"], [5, \"R\"], [7, \"W\"]"), "\"3\": 40, \"5\": 80, \"7\": 16", "7")

Test(et, every_schema_is_read)
{
  expect(HEAD("1.0.1") OLD_NODE("4", "aten::mm", "1", MM, T("2", "3", "10") ", " T("4", "5", "20"), T("6", "7", "4")) ", "
                       OLD_NODE("1", "root", "1", "", "", "") TAIL,
         ONE_MM);
  static const char *const schemas[] = {"1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.0.4-chakra.0.0.4",
                                        "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4", "1.12.0"};
  for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
    char text[2000];
    snprintf(text, sizeof text, "{\"schema\": \"%s\", \"nodes\": [%s, %s]}", schemas[i], ROOT,
             NODE("4", "aten::mm", "1", MM, T("2", "3", "10") ", " T("4", "5", "20"), T("6", "7", "4")));
    expect(text, ONE_MM);
  }
  expect_refused(HEAD("2.0.0") TAIL, "schema \"2.0.0\"");
  expect_refused(HEAD("1.0.0") TAIL, "older than");
  expect_refused(HEAD("new") TAIL, "not a version");
  expect_refused("{\"nodes\": []}", "without \"schema\"");
  expect_refused("{\"schema\": 1, \"nodes\": []}", "not a version");
}

Test(et, an_op_is_an_innermost_operator_and_ops_are_in_the_order_of_their_ids)
{
  /* 2 is around 3 by way of 4, which has no schema; 9 is an annotation with an operator in it; 6 has nothing inside. */
  expect(TRACE(NODE("3", "inner", "4", MM, "", "") ", " NODE("4", "kernel", "2", "", T("1", "99", "1"), "") ", "
               NODE("2", "outer", "1", MM, T("1", "98", "1"), "") ", " NODE("10", "late", "9", MM, "", "") ", "
               NODE("6", "alone", "1", MM, "", "") ", " NODE("9", "note", "1", "", "", "")),
         OPS(OP("inner", "0", "", "") ",\n" OP("alone", "0", "", "") ",\n" OP("late", "0", "", ""), "", ""));
  cr_expect(report.nodes == 7 && report.skipped == 3 && report.ops == 3 && report.execution_trace);
}

Test(et, only_storages_on_a_device_count)
{
  expect(TRACE(NODE("2", "f", "1", MM,
                    "[1, 2, 0, 4, 4, \"cpu\"], [1, 3, 0, 4, 4, \"meta\"], [1, 4, 0, 4, 4, \"\"], [1, 5, 0, 4, 4, \"cpu:0\"], "
                    "[1, 6, 2, 4, 8, \"npu:1\"], [1, 6, 1, 4, 8, \"npu:1\"]",
                    "[1, 7, 0, 4, 4, \"cpu\"]")),
         OPS(OP("f", "1", "", "[6, \"R\"]"), "\"6\": 48", ""));
}

Test(et, lists_are_opened_and_leaves_counted)
{
  /* The list of the arguments is no tensor, though it is five numbers and a text; nor is a list of other six. */
  expect(TRACE(NODE("2", "f", "1", MM, "1, 2, 3, 4, 5, \"cuda:0\"", "[], [1, 2], [[" T("1", "8", "2") ", [" T("1", "9", "3") "]]], null, \"x\", "
                                                                    "{\"a\": [1]}, [1, 2, 3, 4, 5, 6], true")),
         OPS(OP("f", "14", "[2, 8], [3, 9]", "[8, \"W\"], [9, \"W\"]"), "\"8\": 8, \"9\": 12", "8, 9"));
  /* Where inputs stand after the outputs. */
  expect(TRACE("{\"outputs\": {\"values\": [" T("1", "8", "2") "]}, \"inputs\": {\"values\": [[" T("1", "5", "2") ", " T("1", "6", "2")
               "]]}, \"ctrl_deps\": 1, \"name\": \"f\", \"id\": 3, \"attrs\": [{\"value\": \"" MM "\", \"name\": \"op_schema\"}]}"),
         OPS(OP("f", "1", "[0, 8]", "[5, \"R\"], [6, \"R\"], [8, \"W\"]"), "\"5\": 8, \"6\": 8, \"8\": 8", "8"));
}

Test(et, what_the_schema_marks_is_written)
{
  expect(TRACE(NODE("2", "add_", "1", "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
                    T("1", "3", "1") ", " T("1", "4", "1") ", 1", T("1", "3", "1"))),
         OPS(OP("add_", "1", "", "[3, \"W\"], [4, \"R\"]"), "\"3\": 4, \"4\": 4", ""));
  expect(TRACE(NODE("2", "foreach", "1", "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()",
                    "[" T("1", "3", "1") ", " T("1", "4", "1") "], [" T("1", "4", "1") ", " T("1", "4", "1") "], 1", "")),
         OPS(OP("foreach", "0", "", "[3, \"W\"], [4, \"W\"], [4, \"R\"]"), "\"3\": 4, \"4\": 4", ""));
}

Test(et, schemas_are_told_argument_by_argument)
{
  const char *odd = "x::f(str a=\"(b!), (\", Tensor(a -> *) v, *, Tensor(b! -> *)? w=None, int[2] n=[1,2], Tensor(c|d!) out='\\')!') -> (Tensor(b!), Tensor)";
  td_et_tensor inputs[8] = {{.leaf = 1}, {.leaf = 2}, {.leaf = 2}, {.leaf = 4}, {.leaf = 5}, {.leaf = 6}, {.leaf = 7}, {.leaf = UINT64_MAX}};
  td_et_schema_mark(odd, inputs, 8);
  for (size_t i = 0; i < 8; i++) cr_expect_eq(inputs[i].write, inputs[i].leaf == 2 || inputs[i].leaf == 4, "%zu", i);
  static const char *const cut[] = {"", "f", "f(", "f(Tensor(a", "f(\"", "f('\\", "f(,", "f()", "f(*"};
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    td_et_tensor all[3] = {{.leaf = 0}, {.leaf = 1}, {.leaf = 2}};
    td_et_schema_mark(cut[i], all, 3);
    for (int k = 0; k < 3; k++) cr_expect_not(all[k].write, "%s", cut[i]);
  }
}

Test(et, a_view_of_an_activation_is_bound_and_no_write)
{
  expect(TRACE(NODE("2", "mm", "1", MM, T("1", "3", "1"), T("1", "4", "1")) ", "
               NODE("3", "view", "1", MM, T("1", "4", "1") ", " T("1", "3", "1"), T("2", "4", "1") ", " T("2", "3", "1"))),
         OPS(OP("mm", "1", "[0, 4]", "[3, \"R\"], [4, \"W\"]") ",\n" OP("view", "2", "[0, 4]", "[4, \"R\"], [3, \"R\"]"),
             "\"3\": 4, \"4\": 4", "4"));
}

/* ---- reused ids ----------------------------------------------------------------------------------------------- */

#define REUSED                                                                                                         \
  TRACE(NODE("2", "a", "1", MM, "", T("1", "7", "10")) ", "                                                            \
        NODE("3", "aten::empty_strided", "1", EMPTY, "1", T("1", "7", "10")) ", " /* allocated anew */                 \
        NODE("4", "b", "1", MM, "", T("1", "7", "10")) ", "      /* may be the same */                                 \
        NODE("5", "c", "1", MM, "", T("1", "7", "5")) ", "       /* another size */                                    \
        NODE("6", "d", "1", MM, T("1", "7", "3"), "") ", "       /* a part of it */                                    \
        NODE("7", "e", "1", MM, T("1", "7", "6"), "") ", "       /* more than there was */                             \
        NODE("8", "f", "1", MM, T("1", "7", "9") ", " T("1", "12", "1"), "")) /* that one is not ours: it may be larger than seen */

Test(et, storages_that_reuse_an_id_are_told_apart)
{
  expect(REUSED, OPS(OP("a", "1", "[0, 7]", "[7, \"W\"]") ",\n" OP("aten::empty_strided", "1", "[0, 107]", "[107, \"W\"]") ",\n"
                     OP("b", "1", "[0, 107]", "[107, \"W\"]") ",\n" OP("c", "1", "[0, 207]", "[207, \"W\"]") ",\n"
                     OP("d", "0", "", "[207, \"R\"]") ",\n" OP("e", "0", "", "[307, \"R\"]") ",\n"
                     OP("f", "0", "", "[307, \"R\"], [12, \"R\"]"),
                     "\"7\": 40, \"107\": 40, \"207\": 20, \"307\": 36, \"12\": 4", "7, 107, 207"));
  cr_expect(report.split_sids == 1 && report.added_sids == 3);
}

Test(et, ids_are_kept_where_asked)
{
  expect_with(REUSED, &(td_import_options){.keep_ids = true},
              OPS(OP("a", "1", "[0, 7]", "[7, \"W\"]") ",\n" OP("aten::empty_strided", "1", "[0, 7]", "[7, \"W\"]") ",\n"
                  OP("b", "1", "[0, 7]", "[7, \"W\"]") ",\n" OP("c", "1", "[0, 7]", "[7, \"W\"]") ",\n"
                  OP("d", "0", "", "[7, \"R\"]") ",\n" OP("e", "0", "", "[7, \"R\"]") ",\n"
                  OP("f", "0", "", "[7, \"R\"], [12, \"R\"]"),
                  "\"7\": 40, \"12\": 4", "7"));
  cr_expect(report.split_sids == 0 && report.added_sids == 0);
}

Test(et, outputs_that_share_a_storage_are_measured_together)
{
#define BOTH T("1", "7", "2") ", [3, 7, 2, 4, 4, \"cuda:0\"]"
  expect(TRACE(NODE("2", "a", "1", MM, "", BOTH) ", " NODE("3", "b", "1", MM, "", BOTH)),
         OPS(OP("a", "2", "[0, 7], [1, 7]", "[7, \"W\"]") ",\n" OP("b", "2", "[0, 7], [1, 7]", "[7, \"W\"]"), "\"7\": 24", "7"));
}

Test(et, an_expanded_view_is_no_reuse)
{
  expect(TRACE(NODE("2", "a", "1", MM, "", T("1", "7", "1")) ", " NODE("3", "expand", "1", MM, T("1", "7", "1"), T("2", "7", "100")) ", "
               NODE("4", "b", "1", MM, T("2", "7", "100"), "")),
         OPS(OP("a", "1", "[0, 7]", "[7, \"W\"]") ",\n" OP("expand", "1", "[0, 7]", "[7, \"R\"]") ",\n" OP("b", "0", "", "[7, \"R\"]"),
             "\"7\": 400", "7"));
}

Test(et, ids_without_room_for_generations_are_refused_only_if_reused)
{
#define LARGE "18446744073709551615"
  expect(TRACE(NODE("2", "a", "1", MM, "", T("1", LARGE, "1"))), OPS(OP("a", "1", "[0, " LARGE "]", "[" LARGE ", \"W\"]"), "\"" LARGE "\": 4", LARGE));
  expect_refused(TRACE(NODE("2", "a", "1", MM, "", T("1", LARGE, "1")) ", " NODE("3", "b", "1", MM, "", T("1", LARGE, "2"))),
                 "node 3 (b): storage id " LARGE " is reused");
}

/* ---- profiles ------------------------------------------------------------------------------------------------- */

#define TWO_OPS TRACE(NODE("2", "a", "1", MM, "", "") ", " NODE("3", "b", "1", MM, "", ""))

static td_status import_with_profile(const char *profile)
{
  write_file(temp_file(&dir, "profile.json"), profile, strlen(profile));
  return import_with(TWO_OPS, &(td_import_options){.profile = temp_file(&dir, "profile.json")});
}

static void expect_durations(const char *profile, const char *first, const char *second)
{
  cr_assert_eq(import_with_profile(profile), TD_OK, "%s", err.message);
  char *got = interchange();
  cr_expect_not_null(strstr(got, first), "%s", got);
  cr_expect_not_null(strstr(got, second), "%s", got);
  free(got);
}

Test(et, durations_come_from_a_profile_by_record_function_id)
{
#define EVENT(name, dur, id) "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name "\", \"ts\": 1.5, \"dur\": " dur ", \"args\": {\"x\": [1], \"Record function id\": " id "}}"
  expect_durations("{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"M\"}, 3, " EVENT("a", "12", "20") ", " EVENT("a", "5", "20") ", "
                   EVENT("c", "1", "77") ", " EVENT("b", "0.4567", "\"30\"") "], \"x\": 1}",
                   "\"a\", \"dur_ns\": 12000,", "\"b\", \"dur_ns\": 457,");
  cr_expect(report.timed_ops == 2 && report.renamed_ops == 0);
  /* An event with the op's name is better than one without; an array of events is taken as well. */
  expect_durations("[" EVENT("z", "7", "20") ", " EVENT("a", "8", "20") ", " EVENT("z", "9", "30") "]", "\"dur_ns\": 8000,", "\"dur_ns\": 9000,");
  cr_expect(report.timed_ops == 2 && report.renamed_ops == 1);
}

Test(et, what_is_no_profile_of_the_trace_is_refused)
{
  static const char *const bad[][2] = {
      {"{\"traceEvents\": []}", "no op"},
      {"{\"traceEvents\": [" EVENT("a", "1", "21") "]}", "no op"},
      {"{\"traceEvents\": [" EVENT("a", "-1", "20") "]}", "a duration of -1"},
      {"{\"traceEvents\": [" EVENT("a", "1e300", "20") "]}", "a duration of 1e300"},
      {"{\"traceEvents\": [" EVENT("a", "NaN", "20") "]}", "expected a value"},
      {"{\"events\": []}", "not a profiler's trace"},
      {"{\"traceEvents\": [", "ends"},
      {"3", "expected an object"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_expect_neq(import_with_profile(bad[i][0]), TD_OK, "%s", bad[i][0]);
    cr_expect_not_null(strstr(err.message, bad[i][1]), "%s: %s", bad[i][0], err.message);
    cr_expect_not_null(strstr(err.message, "profile.json"), "%s", err.message);
  }
  cr_expect_eq(import_with(FULL_TRACE, &(td_import_options){.profile = "x"}), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "has its durations"), "%s", err.message);
}

/* ---- bad traces ----------------------------------------------------------------------------------------------- */

Test(et, what_is_wrong_is_told_with_its_node)
{
  expect_refused(TRACE(NODE("2", "a", "3", MM, "", "") ", " NODE("3", "b", "2", "", "", "")), "node 2 (a): its parents lead back");
  expect_refused(TRACE(NODE("2", "a", "4", "", "", "") ", " NODE("3", "b", "4", "", "", "") ", " NODE("4", "c", "3", "", "", "")), "lead back");
  expect_refused(TRACE(NODE("2", "a", "99", "", "", "")), "node 2 (a): its parent, node 99, is not in the trace");
  expect_refused(TRACE(NODE("2", "a", "1", "", "", "") ", " NODE("2", "b", "1", "", "", "")), "node 2 (b): a second node with this id");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "nan", "")), "in node 2 (a)");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "[1, NaN]", "")), "in node 2 (a)");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "-Infinity", "")), "in node 2 (a)");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "[1, 2, 0, -4, 4, \"cuda:0\"]", "")), "numel and item size are integers from 0");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "[1, 2, 0, 1e3, 4, \"cuda:0\"]", "")), "in node 2 (a)");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "[1, 2, 18446744073709551615, 1, 4, \"cuda:0\"]", "")), "ends beyond 2^64 bytes, in node 2 (a)");
  expect_refused(TRACE(NODE("2", "a", "1", MM, "[1, 2, 0, 4611686018427387904, 4, \"cuda:0\"]", "")), "ends beyond 2^64 bytes");
  expect_refused(TRACE("{\"name\": \"a\", \"ctrl_deps\": 1}"), "no id, in node number 2 of the file");
  expect_refused(TRACE("{\"id\": 5, \"ctrl_deps\": 1}"), "no name, in node 5");
  expect_refused(TRACE("{\"id\": 5, \"name\": \"a\"}"), "no parent or ctrl_deps, in node 5 (a)");
  expect_refused(TRACE("{\"id\": 5, \"id\": 6}"), "\"id\" stands twice");
  expect_refused(TRACE("{\"id\": 5, \"name\": \"a\", \"parent\": 1, \"op_schema\": \"f()\", \"outputs\": []}"), "no inputs, in node 5 (a)");
  expect_refused(TRACE("{\"id\": 5, \"name\": \"a\", \"parent\": 1, \"inputs\": {\"shapes\": []}}"), "no \"values\", in node 5 (a)");
  expect_refused(TRACE("{\"id\": 5, \"name\": \"a\", \"attrs\": [{\"name\": \"rf_id\", \"value\": \"x\"}]}"), "rf_id is an integer");
  expect_refused(TRACE("{\"id\": 5, \"name\": \"a\", \"attrs\": [{\"name\": \"op_schema\", \"value\": 3}]}"), "op_schema is text");
  expect_refused(TRACE("{\"id\": -5, \"name\": \"a\"}"), "-5 is no integer");
  expect_refused(TRACE("7"), "expected an object");
  expect_refused(HEAD("1.1.1") ROOT, "ends");
  expect_refused(HEAD("1.1.1") "], \"nodes\": []}", "\"nodes\" stands twice");
  expect_refused(HEAD("1.1.1") "], \"schema\": \"1.1.1\"}", "\"schema\" stands twice");
  expect_refused(HEAD("1.1.1") "]} x", "the end of the file");
  expect_refused("{\"a\": 1}", "has \"nodes\"");
}

Test(et, a_root_is_its_own_parent_and_several_may_be)
{
  expect(HEAD("1.1.1") NODE("5", "a", "5", MM, "", "") ", " NODE("2", "b", "2", MM, "", "") TAIL,
         OPS(OP("b", "0", "", "") ",\n" OP("a", "0", "", ""), "", ""));
}

Test(et, a_chain_of_many_nodes_takes_no_stack_and_no_squared_time)
{
  size_t n = 100000, length = 0;
  char *text = malloc(n * 120 + 200);
  length += (size_t)sprintf(text, "%s", HEAD("1.1.1") ROOT);
  for (size_t i = 2; i < n; i++)
    length += (size_t)sprintf(text + length, ", {\"id\": %zu, \"name\": \"x\", \"parent\": %zu, \"op_schema\": \"f()\", \"inputs\": [], \"outputs\": []}",
                              i, i - 1);
  sprintf(text + length, "%s", TAIL);
  cr_assert_eq(import_with(text, NULL), TD_OK, "%s", err.message);
  cr_expect_eq(report.ops, 1);
  cr_expect_eq(report.nodes, n - 1);
  free(text);
}

Test(et, nesting_has_a_limit)
{
  char *text = malloc(60000), *at = text + sprintf(text, "%s{\"id\": 2, \"name\": \"a\", \"inputs\": ", HEAD("1.1.1"));
  memset(at, '[', 50000);
  strcpy(at + 50000, "]");
  expect_refused(text, "nested deeper than");
  free(text);
}

Test(et, names_hold_any_bytes)
{
  expect(TRACE(NODE("2", "a\\u0000\\u0001\\n\x01\n\t\xff\xc3\xa9", "1", MM, "\"\x02\\u0003\"", "\"\x7f\"")),
         OPS(OP("a\\u0000\\u0001\\u000a\\u0001\\u000a\\u0009\\udcff\xc3\xa9", "1", "", ""), "", ""));
}

Test(et, the_header_is_kept_and_members_come_in_any_order)
{
  cr_assert_eq(import_with("{\"finish_ts\": 18446744073709551615, \"nodes\": [" ROOT "], \"pid\": 3, \"schema\": \"1.1.1\"}", NULL), TD_OK,
               "%s", err.message);
  char *got = interchange();
  cr_expect_eq(strstr(got, "{\"meta\": {\"finish_ts\": 18446744073709551615, \"pid\": 3, \"schema\": \"1.1.1\"},"), got, "%s", got);
  free(got);
}

Test(et, compressed_traces_are_taken)
{
  const char *text = TRACE(NODE("4", "aten::mm", "1", MM, T("2", "3", "10") ", " T("4", "5", "20"), T("6", "7", "4")));
  gzFile file = gzopen(temp_file(&dir, "in.gz"), "wb");
  gzwrite(file, text, (unsigned)strlen(text));
  gzclose(file);
  cr_assert_eq(td_import(temp_file(&dir, "in.gz"), temp_file(&dir, "out.tape"), NULL, &report, &err), TD_OK, "%s", err.message);
  cr_expect(report.ops == 1 && report.storages == 3);
}
