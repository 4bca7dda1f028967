#include "format/et_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/fail.h"

enum { ID = 1, NAME = 2, PARENT = 4, INPUTS = 8, OUTPUTS = 16, SCHEMA = 32, RF_ID = 64 };

typedef struct reading {
  td_json *json;
  td_error *err;
  td_et_nodes *nodes;
  td_et_node node;
  unsigned seen;
  uint64_t leaf;  /* the next one of the outputs, or the number of the argument */
  bool outputs;   /* these are read, and lists are leaves of their own */
  td_buffer text; /* the operator's schema */
  td_status status;
} reading;

static bool nomem(reading *r)
{
  if (!r->status) r->status = td_fail_nomem(r->err);
  return false;
}

static bool is(const char *key, size_t length, const char *name)
{
  return length == strlen(name) && memcmp(key, name, length) == 0;
}

static bool once(reading *r, unsigned bit, const char *key)
{
  if (r->seen & bit) return td_json_fail(r->json, "\"%s\" stands twice", key);
  r->seen |= bit;
  return true;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

/* [tensor id, storage id, offset, numel, item size, device], as far as it was read: five numbers and a text. */
typedef struct tensor_value {
  uint64_t numbers[5];
  unsigned n;      /* elements so far that fit */
  bool fits;       /* every element so far does */
  bool in_range;   /* the numbers are integers of 64 bits */
  bool on_device;
} tensor_value;

/* The CPU's memory, the meta device and no device at all hold nothing that could be copied to the host. */
static bool holds_memory(const char *device, size_t length)
{
  const char *colon = memchr(device, ':', length);
  size_t type = colon ? (size_t)(colon - device) : length;
  return type && !is(device, type, "cpu") && !is(device, type, "meta");
}

static bool read_value(reading *r);

static bool read_number(reading *r, tensor_value *value)
{
  const char *text;
  size_t length;
  if (!value->fits || value->n >= 5) {
    value->fits = false;
    return td_json_value(r->json, NULL);
  }
  if (!td_json_number(r->json, &text, &length)) return false;
  if (!td_parse_u64(text, length, &value->numbers[value->n++])) value->in_range = false;
  return true;
}

static bool read_text(reading *r, tensor_value *value)
{
  const char *device;
  size_t length;
  if (!value->fits || value->n++ != 5) {
    value->fits = false;
    return td_json_value(r->json, NULL);
  }
  if (!td_json_string(r->json, &device, &length)) return false;
  value->on_device = holds_memory(device, length);
  return true;
}

static bool keep_tensor(reading *r, const tensor_value *value, uint64_t leaf)
{
  td_et_nodes *nodes = r->nodes;
  uint64_t end, bytes;
  uint32_t *count = r->outputs ? &r->node.n_outputs : &r->node.n_inputs;
  if (!value->in_range) return td_json_fail(r->json, "a tensor's ids, offset, numel and item size are integers from 0 to 2^64-1");
  if (!value->on_device) return true;
  if (__builtin_add_overflow(value->numbers[2], value->numbers[3], &end) || __builtin_mul_overflow(end, value->numbers[4], &bytes))
    return td_json_fail(r->json, "a tensor that ends beyond 2^64 bytes");
  if (!TD_GROW(nodes->tensors, nodes->tensors_capacity, nodes->n_tensors + 1) || *count == UINT32_MAX) return nomem(r);
  nodes->tensors[nodes->n_tensors++] = (td_et_tensor){.storage = value->numbers[1], .bytes = bytes, .leaf = leaf};
  ++*count;
  return true;
}

/* A tensor, or a list that may hold tensors. Of an output each element is a leaf, a list's elements instead of it. */
static bool read_list(reading *r)
{
  tensor_value value = {.fits = true, .in_range = true};
  uint64_t leaf = r->leaf;
  if (!td_json_array(r->json)) return false;
  while (td_json_element(r->json)) {
    char c = td_json_next(r->json);
    bool number = c == '-' || (c >= '0' && c <= '9');
    if (number ? !read_number(r, &value) : c == '"' ? !read_text(r, &value) : !read_value(r)) return false;
    if (number || c == '"') r->leaf += r->outputs; /* read_value counts its own */
    else value.fits = false;
  }
  if (td_json_status(r->json) || !value.fits || value.n != 6) return !td_json_status(r->json);
  r->leaf = leaf + r->outputs;
  return keep_tensor(r, &value, leaf);
}

static bool read_value(reading *r)
{
  if (td_json_next(r->json) == '[') return read_list(r);
  r->leaf += r->outputs;
  return td_json_value(r->json, NULL);
}

/* The arguments or the outputs; this list is never a tensor. */
static bool read_values(reading *r)
{
  if (!td_json_array(r->json)) return false;
  for (r->leaf = 0; td_json_element(r->json); r->leaf += !r->outputs)
    if (!read_value(r)) return false;
  if (r->outputs) r->node.leaves = r->leaf;
  return !td_json_status(r->json);
}

/* Tensors of the node stand together, the inputs first, in whatever order the file has them. */
static bool order_tensors(reading *r, size_t n_before)
{
  td_et_node *node = &r->node;
  if (!n_before || !node->n_inputs) return true;
  td_et_tensor *at = r->nodes->tensors + node->first_tensor, *outputs = malloc(n_before * sizeof *outputs);
  if (!outputs) return nomem(r);
  memcpy(outputs, at, n_before * sizeof *outputs);
  memmove(at, at + n_before, node->n_inputs * sizeof *at);
  memcpy(at + node->n_inputs, outputs, n_before * sizeof *outputs);
  free(outputs);
  return true;
}

static bool read_side(reading *r, bool outputs)
{
  const char *key;
  size_t length, n_before = r->node.n_outputs;
  bool found = false;
  r->outputs = outputs;
  if (td_json_next(r->json) != '{') return read_values(r) && (outputs || order_tensors(r, n_before));
  if (!td_json_object(r->json)) return false;
  while (td_json_member(r->json, &key, &length)) {
    bool values = is(key, length, "values");
    if (values && found) return td_json_fail(r->json, "\"values\" stands twice");
    found = found || values;
    if (values ? !read_values(r) : !td_json_value(r->json, NULL)) return false;
  }
  if (!td_json_status(r->json) && !found) return td_json_fail(r->json, "no \"values\"");
  return !td_json_status(r->json) && (outputs || order_tensors(r, n_before));
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static bool keep_schema(reading *r, const char *text, size_t length)
{
  r->text.length = 0;
  r->node.has_schema = length > 0;
  return once(r, SCHEMA, "op_schema") && (td_buffer_append(&r->text, text, length + 1) || nomem(r));
}

static bool read_schema(reading *r)
{
  const char *text;
  size_t length;
  return td_json_string(r->json, &text, &length) && keep_schema(r, text, length);
}

/* The two attributes that count, by a value that was read before the name was known or after. */
static bool keep_attribute(reading *r, const td_buffer *name, const td_buffer *value, bool text)
{
  const char *key = (const char *)name->bytes, *bytes = (const char *)value->bytes;
  if (!name->length || !value->length) return true;
  size_t length = value->length - 1;
  if (is(key, name->length - 1, "op_schema"))
    return text ? keep_schema(r, bytes, length) : td_json_fail(r->json, "op_schema is text");
  if (!is(key, name->length - 1, "rf_id")) return true;
  return once(r, RF_ID, "rf_id") && ((!text && td_parse_u64(bytes, length, &r->node.rf_id)) ||
                                     td_json_fail(r->json, "rf_id is an integer from 0 to 2^64-1"));
}

static bool take_into(reading *r, td_buffer *to, bool *text)
{
  const char *bytes;
  size_t length;
  char c = td_json_next(r->json);
  *text = c == '"';
  to->length = 0;
  if (c != '"' && c != '-' && (c < '0' || c > '9')) return td_json_value(r->json, NULL);
  if (*text ? !td_json_string(r->json, &bytes, &length) : !td_json_number(r->json, &bytes, &length)) return false;
  return td_buffer_append(to, bytes, length + 1) || nomem(r);
}

static bool read_attribute(reading *r, td_buffer *name, td_buffer *value)
{
  const char *key;
  size_t length;
  bool is_name, text = false;
  name->length = value->length = 0;
  if (!td_json_object(r->json)) return false;
  while (td_json_member(r->json, &key, &length)) {
    if (is(key, length, "name")) {
      if (!take_into(r, name, &is_name)) return false;
    } else if (is(key, length, "value")) {
      if (!take_into(r, value, &text)) return false;
    } else if (!td_json_value(r->json, NULL)) {
      return false;
    }
  }
  return !td_json_status(r->json) && keep_attribute(r, name, value, text);
}

static bool read_attributes(reading *r)
{
  td_buffer name = {0}, value = {0};
  bool done = td_json_array(r->json);
  while (done && td_json_element(r->json)) done = read_attribute(r, &name, &value);
  td_buffer_finish(&name);
  td_buffer_finish(&value);
  return done && !td_json_status(r->json);
}

static bool read_name(reading *r)
{
  const char *text;
  size_t length;
  if (!td_json_string(r->json, &text, &length)) return false;
  r->node.name = td_names_intern(&r->nodes->names, text, length);
  return r->node.name != TD_NAME_NONE || nomem(r);
}

static bool read_member(reading *r, const char *key, size_t length)
{
  td_json *json = r->json;
  if (is(key, length, "id")) return once(r, ID, "id") && td_json_u64(json, &r->node.id);
  if (is(key, length, "name")) return once(r, NAME, "name") && read_name(r);
  if (is(key, length, "parent") || is(key, length, "ctrl_deps"))
    return once(r, PARENT, "parent") && td_json_u64(json, &r->node.parent);
  if (is(key, length, "inputs")) return once(r, INPUTS, "inputs") && read_side(r, false);
  if (is(key, length, "outputs")) return once(r, OUTPUTS, "outputs") && read_side(r, true);
  if (is(key, length, "op_schema")) return read_schema(r);
  if (is(key, length, "rf_id")) return once(r, RF_ID, "rf_id") && td_json_u64(json, &r->node.rf_id);
  if (is(key, length, "attrs")) return read_attributes(r);
  return td_json_value(json, NULL);
}

static bool check_members(reading *r)
{
  static const char *const names[] = {"id", "name", "parent or ctrl_deps", "inputs", "outputs"};
  unsigned n = r->node.has_schema ? 5 : 3;
  for (unsigned bit = 0; bit < n; bit++)
    if (!(r->seen >> bit & 1)) return td_json_fail(r->json, "no %s", names[bit]);
  return true;
}

static bool keep_node(reading *r)
{
  td_et_nodes *nodes = r->nodes;
  td_et_node *node = &r->node;
  if (!node->has_schema) { /* no op, whatever it touches */
    nodes->n_tensors = node->first_tensor;
    node->n_inputs = node->n_outputs = 0;
  }
  if (node->n_inputs) td_et_schema_mark((const char *)r->text.bytes, &nodes->tensors[node->first_tensor], node->n_inputs);
  if (!TD_GROW(nodes->at, nodes->capacity, nodes->count + 1)) return nomem(r);
  nodes->at[nodes->count++] = *node;
  return true;
}

static bool read_node(reading *r)
{
  const char *key;
  size_t length;
  r->seen = 0;
  r->node = (td_et_node){.name = TD_NAME_NONE, .first_tensor = r->nodes->n_tensors};
  if (!td_json_object(r->json)) return false;
  while (td_json_member(r->json, &key, &length))
    if (!read_member(r, key, length)) return false;
  return !td_json_status(r->json) && check_members(r) && keep_node(r);
}

void td_et_node_say(const td_et_nodes *nodes, const td_et_node *node, char text[160])
{
  size_t length;
  const char *name = node->name == TD_NAME_NONE ? "" : td_names_get(&nodes->names, node->name, &length);
  snprintf(text, 160, "node %llu%s%.100s%s", (unsigned long long)node->id, *name ? " (" : "", name, *name ? ")" : "");
}

/* The reader's message says where in the file; this adds in which node. */
static void name_node(reading *r)
{
  char node[160], message[sizeof r->err->message];
  if (r->err->status != TD_E_INPUT) return;
  if (r->seen & ID) td_et_node_say(r->nodes, &r->node, node);
  else snprintf(node, sizeof node, "node number %zu of the file", r->nodes->count + 1);
  memcpy(message, r->err->message, sizeof message);
  td_fail(r->err, TD_E_INPUT, "%s, in %s", message, node);
}

bool td_et_nodes_read(td_et_nodes *nodes, td_json *json, td_error *err)
{
  reading r = {.json = json, .err = err, .nodes = nodes};
  bool done = td_json_array(json);
  while (done && td_json_element(json)) {
    done = read_node(&r);
    if (!done) name_node(&r);
  }
  td_buffer_finish(&r.text);
  return done && !td_json_status(json) && !r.status;
}

void td_et_nodes_finish(td_et_nodes *nodes)
{
  free(nodes->at);
  free(nodes->tensors);
  td_names_finish(&nodes->names);
}
