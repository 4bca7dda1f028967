// The hook: tells a deck what each operator of a step touches. Python drives the step, the regions and what is read outside of operators.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include "operators.h"
#include "storages.h"

namespace tapedeck {

constexpr c10::DispatchKey KEY = c10::DispatchKey::Fake;

using Tensors = std::vector<at::Tensor>;
using Leaves = std::vector<std::optional<at::Tensor>>;

class Hook {
 public:
  Hook(uintptr_t deck, c10::Device device, py::object error, Operators::Silent silent, Operators::Names skipped,
       Operators::Names asynchronous, bool wrap)
      : deck_{reinterpret_cast<td_deck *>(deck), std::move(error)}, storages_(deck_, device, wrap),
        operators_(std::move(silent), std::move(skipped), std::move(asynchronous))
  {
    const td_memory memory = storages_.memory();
    deck_.check(td_deck_set_memory(deck_.handle, &memory));
  }

  static std::atomic<Hook *> active; // inside a step

  // ---- steps ----

  void begin()
  {
    deck_.check(td_step_begin(deck_.handle));
    peak_ = 0;
    active = this;
    join(true);
  }

  void end()
  {
    leave();
    storages_.tell_ended();
    td_status status;
    {
      py::gil_scoped_release others;
      status = td_step_end(deck_.handle);
    }
    forget();
    deck_.check(status);
  }

  void abort()
  {
    leave();
    td_step_abort(deck_.handle);
    forget();
  }

  // The operators of this thread are the step's, or are not.
  void join(bool on)
  {
    c10::impl::tls_set_dispatch_key_included(KEY, on);
  }

  // Operators go unseen while it is more than 0.
  void pause(int by)
  {
    paused_ += by;
  }

  // ---- operators ----

  void run(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack *stack)
  {
    std::unique_lock<std::recursive_mutex> locked(lock_);
    const Operator &known = operators_.of(op);
    // An op inside another is one that was called by an operator which cleared its thread's keys.
    if (known.skipped || paused_ || in_op_ || known.is_meta(*stack)) {
      locked.unlock();
      return op.redispatchBoxed(below, stack);
    }
    leave_older_regions();
    if (!regions_) storages_.tell_ended();
    const size_t first = stack->size() - known.arguments.size();
    if (known.asynchronous)
      for (size_t i = 0; i < known.arguments.size(); i++) pin_all((*stack)[first + i]);
    deck_.check(td_op_begin_n(deck_.handle, known.name.data(), known.name.size()));
    in_op_ = true;
    try {
      const bool when = known.when >= 0 && (*stack)[first + known.when].toBool();
      for (size_t i = 0; i < known.arguments.size(); i++) {
        const Operator::Use use = known.arguments[i];
        if (use) touch((*stack)[first + i], use == Operator::writes || (use == Operator::writes_when && when));
      }
      deck_.check(td_op_run(deck_.handle));
      op.redispatchBoxed(below, stack);
      uint64_t leaf = 0;
      for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) output((*stack)[i], leaf);
      finish_op(leaf);
    } catch (...) {
      abort_op();
      throw;
    }
  }

  // An operation that no operator shows, such as a compiled graph. Operators that it calls are its own affair.
  void call_begin(const std::string &name, const Tensors &read, const Tensors &written)
  {
    Apart apart(this);
    if (!regions_) storages_.tell_ended();
    deck_.check(td_op_begin_n(deck_.handle, name.data(), name.size()));
    in_op_ = true;
    try {
      for (const at::Tensor &tensor : read) touch(tensor, false);
      for (const at::Tensor &tensor : written) touch(tensor, true);
      deck_.check(td_op_run(deck_.handle));
    } catch (...) {
      abort_op();
      throw;
    }
  }

  void call_end(const Leaves &outputs)
  {
    Apart apart(this);
    try {
      for (size_t leaf = 0; leaf < outputs.size(); leaf++)
        if (outputs[leaf]) output(*outputs[leaf], leaf);
      finish_op(outputs.size());
    } catch (...) {
      abort_op();
      throw;
    }
  }

  void call_abort()
  {
    Apart apart(this);
    abort_op();
  }

  // ---- opaque regions ----

  uint32_t region_begin(const std::string &name, const Tensors &inputs)
  {
    Apart apart(this);
    find(inputs);
    td_region region;
    deck_.check(td_region_begin(deck_.handle, name.c_str(), &region));
    regions_++;
    read_inside(inputs);
    return region.id;
  }

  void region_end(uint32_t id, const Leaves &outputs)
  {
    Apart apart(this);
    tell_outputs(outputs);
    regions_--;
    deck_.check(td_region_end(deck_.handle, {id}));
  }

  void region_backward_begin(uint32_t id, const Tensors &gradients)
  {
    Apart apart(this);
    find(gradients);
    deck_.check(td_region_backward_begin(deck_.handle, {id}));
    regions_++;
    read_inside(gradients);
  }

  void region_backward_end(uint32_t id, const Leaves &gradients)
  {
    Apart apart(this);
    tell_outputs(gradients);
    regions_--;
    deck_.check(td_region_backward_end(deck_.handle, {id}));
  }

  void region_abort(uint32_t id)
  {
    Apart apart(this);
    regions_--;
    deck_.check(td_region_abort(deck_.handle, {id}));
  }

  // While backward ops of regions are open: the number of the oldest node of the newest one, and who closes them. 0: none are.
  void watch_nodes(uint64_t oldest, py::object left)
  {
    oldest_node_ = oldest;
    left_ = std::move(left);
  }

  // ---- what is read outside of operators ----

  void restore(const at::Tensor &tensor)
  {
    Apart apart(this);
    const Entry *entry = storages_.known(tensor);
    if (entry && entry->adopted) deck_.check(td_storage_restore(deck_.handle, entry->storage));
  }

  // The storage is whole and stays where it is for the rest of the step: others have its address.
  void pin(const at::Tensor &tensor)
  {
    Apart apart(this);
    restore(tensor);
    Entry *entry = storages_.known(tensor);
    if (!entry || !entry->adopted || in_op_) return;
    pinned_ += entry->size;
    storages_.let_go(entry);
  }

  // ---- measures ----

  uint64_t live_bytes() const { return storages_.live_bytes(); }
  uint64_t peak() const { return peak_; }
  uint64_t pinned() const { return pinned_; }
  // Sum over all storages after each op, for tests.
  void set_measure(bool on) { measure_ = on; }

 private:
  // For calls on the deck that no operator makes: its memory and device may call operators, which are not the step's.
  struct Apart {
    explicit Apart(Hook *hook) : locked(hook->lock_), inside(KEY) {}
    std::lock_guard<std::recursive_mutex> locked;
    c10::impl::ExcludeDispatchKeyGuard inside;
  };

  void leave()
  {
    join(false);
    active = nullptr;
    paused_ = 0;
  }

  void forget()
  {
    storages_.forget();
    regions_ = 0;
    oldest_node_ = 0;
    in_op_ = false;
  }

  // ---- an op ----

  void finish_op(uint64_t leaves)
  {
    deck_.check(td_leaves(deck_.handle, leaves));
    peak_ = std::max(peak_, measure_ ? storages_.live_bytes() : storages_.resident());
    deck_.check(td_op_end(deck_.handle, TD_MEASURE));
    in_op_ = false;
  }

  void abort_op()
  {
    td_op_abort(deck_.handle);
    in_op_ = false;
  }

  // Calls `visit` with each tensor or storage in a value.
  template <typename Visit> static void each(const c10::IValue &value, const Visit &visit)
  {
    if (value.isTensor()) visit(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector()) visit(tensor);
    else if (value.isList())
      for (const c10::IValue &item : value.toListRef()) each(item, visit);
    else if (value.isTuple())
      for (const c10::IValue &item : value.toTupleRef().elements()) each(item, visit);
  }

  void pin_all(const c10::IValue &value)
  {
    each(value, [this](const at::Tensor &tensor) { pin(tensor); });
  }

  void touch(const c10::IValue &value, bool written)
  {
    if (value.isStorage()) touch(value.toStorage(), written);
    else each(value, [this, written](const at::Tensor &tensor) { touch(tensor, written); });
  }

  void touch(const at::Tensor &tensor, bool written)
  {
    if (Storages::has_storage(tensor)) touch(Storages::storage_of(tensor), written);
    else if (tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number()) touch_parts(tensor);
  }

  void touch(const c10::Storage &storage, bool written)
  {
    const Entry *entry = storages_.taken(storage, regions_ > 0);
    if (!entry || !entry->storage.id) return;
    deck_.check(written ? td_write(deck_.handle, entry->storage) : td_read(deck_.handle, entry->storage));
  }

  // A sparse tensor has no storage, but is made of tensors that have: those that the deck moves must be there.
  void touch_parts(const at::Tensor &tensor)
  {
    Tensors parts;
    const c10::Layout layout = tensor.layout();
    if (layout == c10::kSparse) parts = {tensor._indices(), tensor._values()};
    else if (layout == c10::kSparseCsr || layout == c10::kSparseBsr) parts = {tensor.crow_indices(), tensor.col_indices(), tensor.values()};
    else if (layout == c10::kSparseCsc || layout == c10::kSparseBsc) parts = {tensor.ccol_indices(), tensor.row_indices(), tensor.values()};
    for (const at::Tensor &part : parts) {
      const Entry *entry = storages_.known(part);
      if (entry && entry->storage.id) deck_.check(td_read(deck_.handle, entry->storage));
    }
  }

  // Counts the leaves of a value and binds those that have a storage.
  void output(const c10::IValue &value, uint64_t &leaf)
  {
    if (value.isTensor()) output(value.toTensor(), leaf++);
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector()) output(tensor, leaf++);
    else if (value.isList())
      for (const c10::IValue &item : value.toListRef()) output(item, leaf);
    else if (value.isTuple())
      for (const c10::IValue &item : value.toTupleRef().elements()) output(item, leaf);
    else
      leaf++;
  }

  void output(const at::Tensor &tensor, size_t leaf)
  {
    if (!Storages::has_storage(tensor)) return;
    const Entry *entry = storages_.given(Storages::storage_of(tensor), regions_ > 0);
    if (entry && entry->storage.id) deck_.check(td_output(deck_.handle, leaf, entry->storage));
  }

  // ---- regions ----

  // What the outermost region finds is not its own.
  void find(const Tensors &tensors)
  {
    if (regions_) return;
    storages_.tell_ended(); // inside a region ends wait, since its op may have named them
    for (const at::Tensor &tensor : tensors)
      if (Storages::has_storage(tensor)) storages_.taken(Storages::storage_of(tensor), false);
  }

  void read_inside(const Tensors &tensors)
  {
    deck_.check(td_op_begin(deck_.handle, "inputs"));
    for (const at::Tensor &tensor : tensors) touch(tensor, false);
    deck_.check(td_op_end(deck_.handle, 0));
  }

  // The outermost region's outputs are its op's; what was made inside becomes an activation with that.
  void tell_outputs(const Leaves &outputs)
  {
    if (regions_ != 1) return;
    regions_ = 0;
    for (size_t leaf = 0; leaf < outputs.size(); leaf++) {
      if (!outputs[leaf]) continue;
      Entry *entry = storages_.known(*outputs[leaf]);
      if (entry && !entry->storage.id) storages_.end(entry);
      output(*outputs[leaf], leaf);
    }
    regions_ = 1;
    deck_.check(td_leaves(deck_.handle, outputs.size()));
    peak_ = std::max(peak_, storages_.resident());
  }

  // A node that is older than an open region is no part of its backward pass.
  void leave_older_regions()
  {
    if (!oldest_node_) return;
    auto node = torch::autograd::get_current_node();
    if (!node || node->sequence_nr() >= oldest_node_) return;
    py::gil_scoped_acquire gil;
    left_(node->sequence_nr());
  }

  Deck deck_;
  Storages storages_;
  Operators operators_;
  std::recursive_mutex lock_; // operators of several threads come one after the other
  bool in_op_ = false, measure_ = false;
  int paused_ = 0, regions_ = 0;
  uint64_t oldest_node_ = 0;
  py::object left_;
  uint64_t peak_ = 0, pinned_ = 0;
};

inline std::atomic<Hook *> Hook::active{nullptr};

} // namespace tapedeck
