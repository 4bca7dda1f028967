/* A small GPT in plain C, trained twice: with all the memory it wants, and inside a budget. The weights must be the same bits.
 *
 * Every operation runs through a td_deck. Parameters, gradients and AdamW's moments are the program's own memory; activations
 * live in device memory, and the deck may copy them to the host and back between two operations. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/recorder.h>
#include <tapedeck/replayer.h>
#include <tapedeck/session.h>
#include <tapedeck/size.h>
#include <tapedeck/trace.h>

enum { BATCH = 4, TIME = 64, WIDTH = 128, HEADS = 4, HEAD = WIDTH / HEADS, VOCABULARY = 128, ROWS = BATCH * TIME };

static const char text[] =
    "The tape turns once and remembers. What the forward pass made, the backward pass will ask for again, in the opposite "
    "order and at a known hour. So let it go when the room is full, put it on the shelf outside, and have it back on the desk "
    "a moment before it is needed. A step is like the step before it: the same reads, the same writes, the same names in the "
    "same order. Whoever has listened once knows the tune, and whoever knows the tune can be early. Nothing is lost on the "
    "way. Every byte that left comes back as it was, and the weights at the end cannot tell that anything ever moved. ";

/* ---- operations on a deck ------------------------------------------------------------------------------------- */

static td_deck *deck;

static void check(td_status status)
{
  if (!status) return;
  fprintf(stderr, "train_gpt: %s\n", td_deck_error(deck)->message);
  exit(1);
}

typedef struct tensor {
  size_t n; /* floats; 0 ends a list */
  float *own; /* the program's memory; NULL: the deck's */
  td_storage storage;
} tensor;

#define LIST(...) ((const tensor[]){__VA_ARGS__, {0}})

static float *data(tensor t)
{
  return t.own ? t.own : td_data(deck, t.storage);
}

static void begin(const char *name, const tensor *reads)
{
  check(td_op_begin(deck, name));
  for (; reads->n; reads++) check(td_read(deck, reads->storage));
}

static void writes(const tensor *list)
{
  for (; list->n; list++) check(td_write(deck, list->storage));
}

/* A new output of the operation. */
static tensor output(uint64_t leaf, size_t n)
{
  tensor t = {.n = n};
  check(td_storage_alloc(deck, n * sizeof(float), &t.storage));
  check(td_output(deck, leaf, t.storage));
  return t;
}

/* From here to end() the data of what was named is on the device. */
static void run(void)
{
  check(td_op_run(deck));
}

static void end(void)
{
  check(td_op_end(deck, TD_MEASURE));
}

static void drop(tensor t)
{
  check(td_release(deck, t.storage));
}

/* ---- parameters ----------------------------------------------------------------------------------------------- */

typedef struct parameter {
  tensor value, gradient, first, second; /* the last two: AdamW's moments */
} parameter;

typedef struct layer {
  parameter norm1, qkv, proj, norm2, up, down; /* norms: scale, then shift; the others: in x out, then bias */
} layer;

typedef struct model {
  size_t layers;
  parameter token, place, norm, head;
  layer *layer;
} model;

static uint32_t random_state;

static float uniform(void) /* xorshift32, in -1 to 1 */
{
  random_state ^= random_state << 13, random_state ^= random_state >> 17, random_state ^= random_state << 5;
  return (float)(random_state >> 8) * 0x1p-23f - 1;
}

static tensor own(size_t n)
{
  tensor t = {.n = n, .own = calloc(n, sizeof(float))};
  if (!t.own) exit(1);
  check(td_storage_born(deck, (uintptr_t)t.own, n * sizeof(float), &t.storage));
  return t;
}

static parameter create(size_t n)
{
  return (parameter){own(n), own(n), own(n), own(n)};
}

static parameter create_random(size_t rows, size_t columns, size_t bias)
{
  parameter p = create(rows * columns + bias);
  float scale = 1 / sqrtf((float)rows);
  for (size_t i = 0; i < rows * columns; i++) p.value.own[i] = uniform() * scale;
  return p;
}

static parameter create_norm(void)
{
  parameter p = create(2 * WIDTH);
  for (size_t i = 0; i < WIDTH; i++) p.value.own[i] = 1;
  return p;
}

static model create_model(size_t layers)
{
  random_state = 42;
  model m = {.layers = layers, .layer = calloc(layers, sizeof(layer))};
  if (!m.layer) exit(1);
  m.token = create_random(VOCABULARY, WIDTH, 0);
  m.place = create_random(TIME, WIDTH, 0);
  m.norm = create_norm();
  m.head = create_random(WIDTH, VOCABULARY, VOCABULARY);
  for (size_t i = 0; i < layers; i++)
    m.layer[i] = (layer){.norm1 = create_norm(),
                         .qkv = create_random(WIDTH, 3 * WIDTH, 3 * WIDTH),
                         .proj = create_random(WIDTH, WIDTH, WIDTH),
                         .norm2 = create_norm(),
                         .up = create_random(WIDTH, 4 * WIDTH, 4 * WIDTH),
                         .down = create_random(4 * WIDTH, WIDTH, WIDTH)};
  return m;
}

/* All parameters, one by one. */
static size_t count(const model *m)
{
  return 4 + 6 * m->layers;
}

static parameter *parameter_at(model *m, size_t i)
{
  if (i < 4) return (parameter *[]){&m->token, &m->place, &m->norm, &m->head}[i];
  layer *l = &m->layer[(i - 4) / 6];
  return (parameter *[]){&l->norm1, &l->qkv, &l->proj, &l->norm2, &l->up, &l->down}[(i - 4) % 6];
}

static void destroy_model(model *m)
{
  for (size_t i = 0; i < count(m); i++) {
    parameter *p = parameter_at(m, i);
    free(p->value.own), free(p->gradient.own), free(p->first.own), free(p->second.own);
  }
  free(m->layer);
}

/* ---- forward and backward of each operation ------------------------------------------------------------------- */

/* Eight sums side by side, for the compiler to make vectors of. */
static float dot(const float *a, const float *b, size_t n)
{
  float sum[8] = {0}, all = 0;
  for (size_t i = 0; i < n; i += 8)
    for (size_t k = 0; k < 8; k++) sum[k] += a[i + k] * b[i + k];
  for (size_t k = 0; k < 8; k++) all += sum[k];
  return all;
}

static void add_scaled(float *to, const float *from, float scale, size_t n)
{
  for (size_t i = 0; i < n; i++) to[i] += scale * from[i];
}

static tensor embed(const model *m, const uint8_t *tokens)
{
  begin("embedding", LIST(m->token.value, m->place.value));
  tensor out = output(0, ROWS * WIDTH);
  run();
  float *x = data(out);
  for (size_t r = 0; r < ROWS; r++)
    for (size_t c = 0; c < WIDTH; c++)
      x[r * WIDTH + c] = m->token.value.own[tokens[r] * WIDTH + c] + m->place.value.own[r % TIME * WIDTH + c];
  end();
  return out;
}

static void embed_backward(const model *m, const uint8_t *tokens, tensor dout)
{
  begin("embedding_backward", LIST(dout));
  writes(LIST(m->token.gradient, m->place.gradient));
  run();
  for (size_t r = 0; r < ROWS; r++) {
    add_scaled(m->token.gradient.own + tokens[r] * WIDTH, data(dout) + r * WIDTH, 1, WIDTH);
    add_scaled(m->place.gradient.own + r % TIME * WIDTH, data(dout) + r * WIDTH, 1, WIDTH);
  }
  end();
}

static tensor linear(tensor in, const parameter *p, size_t n_in, size_t n_out)
{
  begin("linear", LIST(in, p->value));
  tensor out = output(0, ROWS * n_out);
  run();
  const float *x = data(in), *w = p->value.own;
  for (size_t r = 0; r < ROWS; r++) {
    float *y = data(out) + r * n_out;
    memcpy(y, w + n_in * n_out, n_out * sizeof(float));
    for (size_t i = 0; i < n_in; i++) add_scaled(y, w + i * n_out, x[r * n_in + i], n_out);
  }
  end();
  return out;
}

static tensor linear_backward(tensor in, const parameter *p, tensor dout, size_t n_in, size_t n_out)
{
  begin("linear_backward", LIST(in, dout, p->value));
  writes(LIST(p->gradient));
  tensor din = output(0, ROWS * n_in);
  run();
  const float *x = data(in), *dy = data(dout), *w = p->value.own;
  float *dx = data(din), *dw = p->gradient.own;
  for (size_t r = 0; r < ROWS; r++) {
    for (size_t i = 0; i < n_in; i++) {
      dx[r * n_in + i] = dot(dy + r * n_out, w + i * n_out, n_out);
      add_scaled(dw + i * n_out, dy + r * n_out, x[r * n_in + i], n_out);
    }
    add_scaled(dw + n_in * n_out, dy + r * n_out, 1, n_out);
  }
  end();
  return din;
}

static void mean_and_rstd(const float *x, float *mean, float *rstd)
{
  float sum = 0, squares = 0;
  for (size_t c = 0; c < WIDTH; c++) sum += x[c];
  *mean = sum / WIDTH;
  for (size_t c = 0; c < WIDTH; c++) squares += (x[c] - *mean) * (x[c] - *mean);
  *rstd = 1 / sqrtf(squares / WIDTH + 1e-5f);
}

static tensor norm(tensor in, const parameter *p)
{
  begin("layer_norm", LIST(in, p->value));
  tensor out = output(0, ROWS * WIDTH);
  run();
  for (size_t r = 0; r < ROWS; r++) {
    const float *x = data(in) + r * WIDTH, *w = p->value.own;
    float *y = data(out) + r * WIDTH, mean, rstd;
    mean_and_rstd(x, &mean, &rstd);
    for (size_t c = 0; c < WIDTH; c++) y[c] = (x[c] - mean) * rstd * w[c] + w[WIDTH + c];
  }
  end();
  return out;
}

/* Adds to the gradient of the residual stream in place. */
static void norm_backward(tensor in, const parameter *p, tensor dout, tensor din)
{
  begin("layer_norm_backward", LIST(in, dout, din, p->value));
  writes(LIST(din, p->gradient));
  run();
  for (size_t r = 0; r < ROWS; r++) {
    const float *x = data(in) + r * WIDTH, *dy = data(dout) + r * WIDTH, *w = p->value.own;
    float *dx = data(din) + r * WIDTH, *dw = p->gradient.own, mean, rstd, sum = 0, weighted = 0;
    mean_and_rstd(x, &mean, &rstd);
    for (size_t c = 0; c < WIDTH; c++) {
      float unit = (x[c] - mean) * rstd;
      sum += dy[c] * w[c];
      weighted += dy[c] * w[c] * unit;
      dw[c] += dy[c] * unit;
      dw[WIDTH + c] += dy[c];
    }
    for (size_t c = 0; c < WIDTH; c++)
      dx[c] += rstd * (dy[c] * w[c] - sum / WIDTH - (x[c] - mean) * rstd * weighted / WIDTH);
  }
  end();
}

static void softmax(float *x, size_t n)
{
  float most = x[0], sum = 0;
  for (size_t i = 1; i < n; i++) most = fmaxf(most, x[i]);
  for (size_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - most);
  for (size_t i = 0; i < n; i++) x[i] /= sum;
}

/* The query, key or value (0, 1, 2) of one head in row r of qkv. */
static float *part(float *qkv, size_t r, size_t which, size_t head)
{
  return qkv + r * 3 * WIDTH + which * WIDTH + head * HEAD;
}

/* Causal attention; the weights (batch x heads x time x time) are kept for the backward pass. */
static tensor attend(tensor in, tensor *weights)
{
  begin("attention", LIST(in));
  tensor out = output(0, ROWS * WIDTH);
  *weights = output(1, BATCH * HEADS * TIME * TIME);
  run();
  float *qkv = data(in), *y = data(out);
  memset(y, 0, out.n * sizeof(float));
  memset(data(*weights), 0, weights->n * sizeof(float));
  for (size_t i = 0; i < BATCH * HEADS * TIME; i++) {
    size_t t = i % TIME, h = i / TIME % HEADS, first = i / TIME / HEADS * TIME, r = first + t;
    float *a = data(*weights) + i * TIME;
    for (size_t s = 0; s <= t; s++) a[s] = dot(part(qkv, r, 0, h), part(qkv, first + s, 1, h), HEAD) / sqrtf(HEAD);
    softmax(a, t + 1);
    for (size_t s = 0; s <= t; s++) add_scaled(y + r * WIDTH + h * HEAD, part(qkv, first + s, 2, h), a[s], HEAD);
  }
  end();
  return out;
}

static tensor attend_backward(tensor in, tensor weights, tensor dout)
{
  begin("attention_backward", LIST(in, weights, dout));
  tensor din = output(0, ROWS * 3 * WIDTH);
  run();
  float *qkv = data(in), *d = data(din);
  memset(d, 0, din.n * sizeof(float));
  for (size_t i = 0; i < BATCH * HEADS * TIME; i++) {
    size_t t = i % TIME, h = i / TIME % HEADS, first = i / TIME / HEADS * TIME, r = first + t;
    const float *a = data(weights) + i * TIME, *dy = data(dout) + r * WIDTH + h * HEAD;
    float da[TIME], sum = 0;
    for (size_t s = 0; s <= t; s++) {
      da[s] = dot(dy, part(qkv, first + s, 2, h), HEAD);
      sum += da[s] * a[s];
      add_scaled(part(d, first + s, 2, h), dy, a[s], HEAD);
    }
    for (size_t s = 0; s <= t; s++) {
      float score = a[s] * (da[s] - sum) / sqrtf(HEAD);
      add_scaled(part(d, r, 0, h), part(qkv, first + s, 1, h), score, HEAD);
      add_scaled(part(d, first + s, 1, h), part(qkv, r, 0, h), score, HEAD);
    }
  }
  end();
  return din;
}

static tensor add(tensor a, tensor b)
{
  begin("add", LIST(a, b));
  tensor out = output(0, a.n);
  run();
  for (size_t i = 0; i < a.n; i++) data(out)[i] = data(a)[i] + data(b)[i];
  end();
  return out;
}

#define GELU_SCALE 0.7978845608f /* sqrt(2 / pi); the tanh form of Hendrycks and Gimpel (2016) */

static tensor gelu(tensor in)
{
  begin("gelu", LIST(in));
  tensor out = output(0, in.n);
  run();
  const float *x = data(in);
  float *y = data(out);
  for (size_t i = 0; i < in.n; i++) y[i] = 0.5f * x[i] * (1 + tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
  end();
  return out;
}

static tensor gelu_backward(tensor in, tensor dout)
{
  begin("gelu_backward", LIST(in, dout));
  tensor din = output(0, in.n);
  run();
  const float *x = data(in), *dy = data(dout);
  float *dx = data(din);
  for (size_t i = 0; i < in.n; i++) {
    float t = tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    dx[i] = dy[i] * (0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * GELU_SCALE * (1 + 3 * 0.044715f * x[i] * x[i]));
  }
  end();
  return din;
}

/* The mean loss, as a tensor of one number, and the probabilities. */
static tensor cross_entropy(tensor logits, const uint8_t *targets, tensor *probabilities)
{
  begin("cross_entropy", LIST(logits));
  tensor loss = output(0, 1);
  *probabilities = output(1, logits.n);
  run();
  float *p = data(*probabilities), sum = 0;
  memcpy(p, data(logits), logits.n * sizeof(float));
  for (size_t r = 0; r < ROWS; r++) {
    softmax(p + r * VOCABULARY, VOCABULARY);
    sum -= logf(p[r * VOCABULARY + targets[r]]);
  }
  *data(loss) = sum / ROWS;
  end();
  return loss;
}

/* The probabilities become the gradient of the logits, in place. */
static void cross_entropy_backward(tensor probabilities, const uint8_t *targets)
{
  begin("cross_entropy_backward", LIST(probabilities));
  writes(LIST(probabilities));
  run();
  float *p = data(probabilities);
  for (size_t r = 0; r < ROWS; r++) p[r * VOCABULARY + targets[r]] -= 1;
  for (size_t i = 0; i < probabilities.n; i++) p[i] /= ROWS;
  end();
}

/* AdamW (Loshchilov and Hutter 2019); leaves the gradient zero for the next step. */
static void update(parameter *p, int step)
{
  begin("adamw", LIST(p->gradient));
  writes(LIST(p->value, p->first, p->second, p->gradient));
  run();
  float rate = 1e-3f, unbias1 = 1 - powf(0.9f, (float)step), unbias2 = 1 - powf(0.999f, (float)step);
  for (size_t i = 0; i < p->value.n; i++) {
    float g = p->gradient.own[i], *m = &p->first.own[i], *v = &p->second.own[i];
    *m = 0.9f * *m + 0.1f * g;
    *v = 0.999f * *v + 0.001f * g * g;
    p->value.own[i] -= rate * (*m / unbias1 / (sqrtf(*v / unbias2) + 1e-8f) + 0.01f * p->value.own[i]);
    p->gradient.own[i] = 0;
  }
  end();
}

/* ---- a step --------------------------------------------------------------------------------------------------- */

/* What a layer's backward pass reads. */
typedef struct saved {
  tensor in, normed1, qkv, weights, attended, middle, normed2, up, active;
} saved;

static tensor layer_forward(const layer *l, tensor in, saved *s)
{
  s->in = in;
  s->normed1 = norm(in, &l->norm1);
  s->qkv = linear(s->normed1, &l->qkv, WIDTH, 3 * WIDTH);
  s->attended = attend(s->qkv, &s->weights);
  tensor projected = linear(s->attended, &l->proj, WIDTH, WIDTH);
  s->middle = add(in, projected);
  drop(projected);
  s->normed2 = norm(s->middle, &l->norm2);
  s->up = linear(s->normed2, &l->up, WIDTH, 4 * WIDTH);
  s->active = gelu(s->up);
  tensor down = linear(s->active, &l->down, 4 * WIDTH, WIDTH);
  tensor out = add(s->middle, down);
  drop(down);
  return out;
}

/* `d` is the gradient of what the layer gave and becomes, in place, that of what it got. */
static void layer_backward(const layer *l, const saved *s, tensor d)
{
  tensor dactive = linear_backward(s->active, &l->down, d, 4 * WIDTH, WIDTH);
  drop(s->active);
  tensor dup = gelu_backward(s->up, dactive);
  drop(s->up), drop(dactive);
  tensor dnormed = linear_backward(s->normed2, &l->up, dup, WIDTH, 4 * WIDTH);
  drop(s->normed2), drop(dup);
  norm_backward(s->middle, &l->norm2, dnormed, d);
  drop(s->middle), drop(dnormed);
  tensor dattended = linear_backward(s->attended, &l->proj, d, WIDTH, WIDTH);
  drop(s->attended);
  tensor dqkv = attend_backward(s->qkv, s->weights, dattended);
  drop(s->qkv), drop(s->weights), drop(dattended);
  dnormed = linear_backward(s->normed1, &l->qkv, dqkv, WIDTH, 3 * WIDTH);
  drop(s->normed1), drop(dqkv);
  norm_backward(s->in, &l->norm1, dnormed, d);
  drop(s->in), drop(dnormed);
}

/* Returns the loss, which is still held: it is read after the step. */
static tensor train_step(model *m, saved *saved, const uint8_t *tokens, const uint8_t *targets, int step)
{
  tensor probabilities, x = embed(m, tokens);
  for (size_t i = 0; i < m->layers; i++) x = layer_forward(&m->layer[i], x, &saved[i]);
  tensor normed = norm(x, &m->norm), logits = linear(normed, &m->head, WIDTH, VOCABULARY);
  tensor loss = cross_entropy(logits, targets, &probabilities);
  drop(logits);
  check(td_step_mark(deck, "forward_end"));

  cross_entropy_backward(probabilities, targets);
  tensor dnormed = linear_backward(normed, &m->head, probabilities, WIDTH, VOCABULARY);
  drop(normed), drop(probabilities);
  begin("zeros", LIST({0}));
  tensor d = output(0, ROWS * WIDTH);
  run();
  memset(data(d), 0, d.n * sizeof(float));
  end();
  norm_backward(x, &m->norm, dnormed, d);
  drop(x), drop(dnormed);
  for (size_t i = m->layers; i--;) layer_backward(&m->layer[i], &saved[i], d);
  embed_backward(m, tokens, d);
  drop(d);
  check(td_step_mark(deck, "backward_end"));

  for (size_t i = 0; i < count(m); i++) update(parameter_at(m, i), step);
  return loss;
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

typedef struct result {
  float *losses;
  float *weights;
  size_t n_weights;
  td_step_stats last; /* of the last step */
  double step_ms;     /* mean of the last half of the steps */
  int replayed;       /* steps */
} result;

static void keep_weights(model *m, result *r)
{
  for (size_t i = 0; i < count(m); i++) {
    tensor value = parameter_at(m, i)->value;
    r->weights = realloc(r->weights, (r->n_weights + value.n) * sizeof(float));
    if (!r->weights) exit(1);
    memcpy(r->weights + r->n_weights, value.own, value.n * sizeof(float));
    r->n_weights += value.n;
  }
}

/* Trains on `use` from the same start, always on the same text; destroys the deck. */
static result train(td_deck *use, size_t layers, int steps)
{
  deck = use;
  result r = {.losses = calloc((size_t)steps, sizeof(float))};
  model m = create_model(layers);
  saved *saved = calloc(layers, sizeof *saved);
  if (!r.losses || !saved) exit(1);
  uint8_t tokens[ROWS], targets[ROWS];
  for (int step = 1; step <= steps; step++) {
    for (size_t r = 0; r < ROWS; r++) {
      size_t at = ((size_t)step * 131 + r / TIME * 37 + r % TIME) % (sizeof text - 2);
      tokens[r] = (uint8_t)text[at];
      targets[r] = (uint8_t)text[at + 1];
    }
    check(td_step_begin(deck));
    tensor loss = train_step(&m, saved, tokens, targets, step);
    check(td_step_end(deck));
    check(td_fetch(deck, loss.storage, &r.losses[step - 1], sizeof(float)));
    drop(loss);
    td_deck_stats(deck, &r.last);
    r.replayed += r.last.replayed;
    if (step > steps / 2) r.step_ms += (double)r.last.step_ns / 1e6 / (steps - steps / 2);
  }
  keep_weights(&m, &r);
  destroy_model(&m);
  free(saved);
  td_deck_destroy(deck);
  return r;
}

/* ---- the program ---------------------------------------------------------------------------------------------- */

typedef struct options {
  int steps;
  size_t layers;
  const char *budget, *record, *replay, *device;
} options;

static void usage(FILE *to)
{
  fputs("Usage: train_gpt [OPTIONS]\n\n"
        "Trains a small GPT without a limit and inside a budget, and compares the weights.\n\n"
        "  --steps N        training steps, default 8\n"
        "  --layers N       default 4\n"
        "  --budget SIZE    for activations: bytes, KiB, MiB, or N% of the peak; default 40%\n"
        "  --record FILE    the tape to write, default train_gpt.tape\n"
        "  --replay FILE    inside the budget, replay this tape's newest schedule instead of recording and planning\n"
        "  --device NAME    default host\n\n"
        "Example: train_gpt --budget 50% --record step.tape\n",
        to);
}

static options parse(int argc, char **argv)
{
  options o = {.steps = 8, .layers = 4, .budget = "40%", .record = "train_gpt.tape", .device = "host"};
  static const struct option longs[] = {{"steps", 1, NULL, 's'},  {"layers", 1, NULL, 'l'}, {"budget", 1, NULL, 'b'},
                                        {"record", 1, NULL, 'r'}, {"replay", 1, NULL, 'p'}, {"device", 1, NULL, 'd'},
                                        {"help", 0, NULL, 'h'},   {0}};
  for (int code; (code = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
    switch (code) {
    case 's': o.steps = atoi(optarg); break;
    case 'l': o.layers = (size_t)atoi(optarg); break;
    case 'b': o.budget = optarg; break;
    case 'r': o.record = optarg; break;
    case 'p': o.replay = optarg; break;
    case 'd': o.device = optarg; break;
    case 'h': usage(stdout); exit(0);
    default: exit(2);
    }
  }
  if (o.steps < 1 || o.steps > 100000 || o.layers < 1 || o.layers > 1000 || optind < argc) {
    fputs("train_gpt: expected --steps and --layers from 1, and no other arguments; see train_gpt --help\n", stderr);
    exit(2);
  }
  return o;
}

static td_error err;

static void need(td_status status)
{
  if (!status) return;
  fprintf(stderr, "train_gpt: %s\n", err.message);
  exit(status == TD_E_BUDGET ? 3 : 2);
}

static void row(const char *what, const char *without, const char *with)
{
  printf("  %-22s %14s %14s\n", what, without, with);
}

static const char *print(char *to, const char *format, double number)
{
  snprintf(to, 32, format, number);
  return to;
}

static void report(const td_trace_info *info, uint64_t budget, const result *a, const result *b, int steps, bool same)
{
  char x[32], y[32];
  printf("\n  %zu parameters, %d steps, %d of them replayed\n\n", a->n_weights, steps, b->replayed);
  row("", "without", "with the plan");
  row("ops", print(x, "%.0f", (double)a->last.ops), print(y, "%.0f", (double)b->last.ops));
  row("storages", print(x, "%.0f", (double)info->storages), "");
  row("peak", td_format_size(a->last.peak_bytes, x, sizeof x), td_format_size(b->last.peak_bytes, y, sizeof y));
  row("budget", "none", td_format_size(budget, y, sizeof y));
  row("copied out", "0 B", td_format_size(b->last.d2h_bytes, y, sizeof y));
  row("copied in", "0 B", td_format_size(b->last.h2d_bytes, y, sizeof y));
  row("stall", "0 ms", print(y, "%.2f ms", (double)b->last.stall_ns / 1e6));
  row("step time", print(x, "%.1f ms", a->step_ms), print(y, "%.1f ms", b->step_ms));
  row("loss, first step", print(x, "%.6f", a->losses[0]), print(y, "%.6f", b->losses[0]));
  row("loss, last step", print(x, "%.6f", a->losses[steps - 1]), print(y, "%.6f", b->losses[steps - 1]));
  row("weights and losses", "", same ? "bit-identical" : "DIFFERENT");
}

int main(int argc, char **argv)
{
  options o = parse(argc, argv);
  td_device *device;
  td_tape *tape;
  td_trace_info info;
  td_deck *use;

  /* Without a limit; recorded, so that the budget may be a share of the peak. */
  const char *path = o.replay ? "train_gpt.tape" : o.record;
  need(td_device_open(&device, o.device, NULL, &err));
  need(td_recorder_create(&use, &(td_recorder_options){.path = path, .device = device}, &err));
  result without = train(use, o.layers, o.steps);
  td_device_close(device);
  need(td_tape_open(&tape, path, &err));
  need(td_tape_info(tape, TD_NEWEST, &info, &err));
  td_tape_close(tape);

  /* Inside the budget, on a device that has no byte more. */
  td_device_options limit = {0};
  need(td_parse_size(o.budget, info.peak_bytes, &limit.capacity_bytes, &err));
  need(td_device_open(&device, o.device, &limit, &err));
  if (o.replay)
    need(td_replayer_create(&use, &(td_replayer_options){.path = o.replay, .device = device}, &err));
  else
    need(td_session_create(&use, &(td_session_options){.path = path, .device = device, .budget_bytes = limit.capacity_bytes}, &err));
  result with = train(use, o.layers, o.steps);
  td_device_close(device);

  bool same = without.n_weights == with.n_weights &&
              memcmp(without.weights, with.weights, with.n_weights * sizeof(float)) == 0 &&
              memcmp(without.losses, with.losses, (size_t)o.steps * sizeof(float)) == 0;
  report(&info, limit.capacity_bytes, &without, &with, o.steps, same);
  free(without.weights), free(without.losses), free(with.weights), free(with.losses);
  return same ? 0 : 1;
}
