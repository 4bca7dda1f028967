// The native hook: a boxed fallback on a dispatch key of its own, which tells a deck what each operator touches.
//
// The key is Fake: it lies below autograd and above every backend, and PyTorch 2.13 leaves it empty. A session includes it in the
// thread's keys, which autograd carries into the backward pass, so nothing is paid outside of a step. Operators that are called
// while one runs are that one's own affair: the key is excluded meanwhile.
//
// A storage is a StorageImpl with a weak reference held, so its address is not used again. The bytes of an activation go through
// an Entry: the StorageImpl has a pointer whose deleter tells of its end, and the Entry owns the bytes. They leave by making
// the storage empty and come back into the same one. What reads an empty one is told so by PyTorch, with our text.
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <tapedeck/deck.h>

namespace {

constexpr c10::DispatchKey KEY = c10::DispatchKey::Fake;
constexpr const char *AWAY = "the bytes of this tensor are on the host for now, and it is read outside of an operator:"
                             " call session.restore(tensor) before";

class Hook;

// A storage that the deck knows, or one that was made inside an opaque region, which it does not (storage.id is 0).
struct Entry {
  Hook *hook = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> impl{c10::intrusive_ptr<c10::StorageImpl>()};
  c10::Allocator *allocator = nullptr;
  c10::DataPtr bytes; // of a wrapped one, while they are on the device
  td_storage storage{0};
  size_t size = 0;
  bool adopted = false; // the deck moves it
  bool wrapped = false; // its end is told by the deleter
  bool present = true;  // its bytes are on the device
  bool told = false;    // the deck was told of its end
  unsigned holds = 0; // copies that use the bytes
  c10::intrusive_ptr<c10::StorageImpl> held; // meanwhile, where the bytes are the StorageImpl's own
};

// What is known of an operator, once for each.
struct Operator {
  enum Use : uint8_t { none, reads, writes, writes_when };
  std::string name;
  std::vector<Use> arguments;
  int when = -1;   // the argument that says whether one writes
  int device = -1; // the argument that says where a new tensor lies
  bool skipped = false;      // no operation of the step
  bool asynchronous = false; // goes on with its tensors after it returned
};

void gone(void *context);

class Hook {
 public:
  using Silent = std::unordered_map<std::string, std::pair<std::vector<size_t>, int>>;
  using Names = std::unordered_set<std::string>;

  // `error` makes an exception of a status and a message; the rest is what operators.py knows. `wrap` false: for allocators that look
  // at their pointers' deleters.
  Hook(uintptr_t deck, c10::Device device, py::object error, Silent silent, Names skipped, Names asynchronous, bool wrap)
      : deck_(reinterpret_cast<td_deck *>(deck)), device_(device), error_(std::move(error)), silent_(std::move(silent)),
        skipped_(std::move(skipped)), asynchronous_(std::move(asynchronous)), wrap_(wrap)
  {
    td_memory memory = {this, alloc, free, pointer, hold, drop};
    if (td_deck_set_memory(deck_, &memory)) fail();
  }

  // ---- steps ----

  void begin()
  {
    if (td_step_begin(deck_)) fail();
    peak_ = 0;
    regions_ = 0;
    active = this;
    c10::impl::tls_set_dispatch_key_included(KEY, true);
  }

  void end()
  {
    leave();
    tell_ended();
    td_status status;
    {
      py::gil_scoped_release free_for_others;
      status = td_step_end(deck_);
    }
    forget();
    if (status) fail();
  }

  void abort()
  {
    leave();
    td_step_abort(deck_);
    forget();
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
    const Operator &known = operator_of(op);
    // An op inside another is one that was called by an operator which cleared its thread's keys.
    if (known.skipped || paused_ || in_op_ || is_meta(known, *stack)) {
      locked.unlock();
      return op.redispatchBoxed(below, stack);
    }
    leave_older_regions();
    tell_ended();
    const size_t first = stack->size() - known.arguments.size();
    if (known.asynchronous)
      for (size_t i = 0; i < known.arguments.size(); i++) pin_all((*stack)[first + i]);
    if (td_op_begin_n(deck_, known.name.data(), known.name.size())) fail();
    in_op_ = true;
    try {
      const bool when = known.when >= 0 && (*stack)[first + known.when].toBool();
      for (size_t i = 0; i < known.arguments.size(); i++) {
        const Operator::Use use = known.arguments[i];
        if (use) touch((*stack)[first + i], use == Operator::writes || (use == Operator::writes_when && when));
      }
      if (td_op_run(deck_)) fail();
      op.redispatchBoxed(below, stack);
      const size_t returns = op.schema().returns().size();
      uint64_t leaf = 0;
      for (size_t i = stack->size() - returns; i < stack->size(); i++) output((*stack)[i], leaf);
      finish_op(leaf);
    } catch (...) {
      td_op_abort(deck_);
      in_op_ = false;
      throw;
    }
  }

  // An operation that no operator shows, such as a compiled graph.
  void call_begin(const std::string &name, const std::vector<at::Tensor> &read, const std::vector<at::Tensor> &written)
  {
    lock_.lock();
    c10::impl::ExcludeDispatchKeyGuard inside(KEY);
    tell_ended();
    in_op_ = true;
    bool begun = !td_op_begin_n(deck_, name.data(), name.size());
    try {
      if (!begun) fail();
      for (const auto &tensor : read) touch(tensor, false);
      for (const auto &tensor : written) touch(tensor, true);
      if (td_op_run(deck_)) fail();
    } catch (...) {
      if (begun) td_op_abort(deck_);
      in_op_ = false;
      lock_.unlock();
      throw;
    }
    paused_++;
  }

  void call_end(const std::vector<std::optional<at::Tensor>> &outputs)
  {
    c10::impl::ExcludeDispatchKeyGuard inside(KEY);
    paused_--;
    uint64_t leaf = 0;
    try {
      for (const auto &tensor : outputs) {
        if (tensor) output(*tensor, leaf);
        leaf++;
      }
      finish_op(leaf);
    } catch (...) {
      td_op_abort(deck_);
      in_op_ = false;
      lock_.unlock();
      throw;
    }
    lock_.unlock();
  }

  void call_abort()
  {
    paused_--;
    td_op_abort(deck_);
    in_op_ = false;
    lock_.unlock();
  }

  // ---- opaque regions ----

  uint32_t region_begin(const std::string &name, const std::vector<at::Tensor> &inputs)
  {
    Apart apart(this);
    tell_ended();
    if (!regions_) // what it finds is not its own
      for (const auto &tensor : inputs) entry_of(tensor);
    td_region region;
    if (td_region_begin(deck_, name.c_str(), &region)) fail();
    regions_++;
    read_inside(inputs);
    return region.id;
  }

  void region_end(uint32_t id, const std::vector<std::optional<at::Tensor>> &outputs)
  {
    Apart apart(this);
    tell_outputs(outputs);
    regions_--;
    if (td_region_end(deck_, {id})) fail();
  }

  void region_backward_begin(uint32_t id, const std::vector<at::Tensor> &gradients)
  {
    Apart apart(this);
    tell_ended();
    if (!regions_)
      for (const auto &tensor : gradients) entry_of(tensor);
    if (td_region_backward_begin(deck_, {id})) fail();
    regions_++;
    read_inside(gradients);
  }

  void region_backward_end(uint32_t id, const std::vector<std::optional<at::Tensor>> &gradients)
  {
    Apart apart(this);
    tell_outputs(gradients);
    regions_--;
    if (td_region_backward_end(deck_, {id})) fail();
  }

  void region_abort(uint32_t id)
  {
    Apart apart(this);
    regions_--;
    if (td_region_abort(deck_, {id})) fail();
  }

  // While backward ops of regions are open: the number of the oldest node of the newest one, and who closes them.
  void watch_nodes(uint64_t oldest, py::object left)
  {
    oldest_node_ = oldest;
    left_ = std::move(left);
  }

  // ---- what is read outside of operators ----

  void restore(const at::Tensor &tensor)
  {
    Apart apart(this);
    Entry *entry = known_of(tensor);
    if (entry && entry->adopted && td_storage_restore(deck_, entry->storage)) fail();
  }

  // The storage is whole and stays where it is for the rest of the step: others have its address.
  void pin(const at::Tensor &tensor)
  {
    Apart apart(this);
    restore(tensor);
    Entry *entry = known_of(tensor);
    if (!entry || !entry->adopted || in_op_) return;
    pinned_ += entry->size;
    auto impl = entry->impl.lock();
    unwrap(entry, impl.get());
    end_entry(entry);
  }

  // ---- what is measured ----

  uint64_t peak() const { return peak_; }
  uint64_t pinned() const { return pinned_; }
  void set_measure(bool on) { measure_ = on; }

  // The sum over the storages themselves.
  uint64_t live_bytes() const
  {
    uint64_t sum = 0;
    for (const Entry &entry : entries_) {
      auto impl = entry.adopted && !entry.told ? entry.impl.lock() : c10::intrusive_ptr<c10::StorageImpl>();
      if (impl) sum += impl->nbytes();
    }
    return sum;
  }

  void storage_gone(Entry *entry)
  {
    std::lock_guard<std::mutex> locked(ended_lock_);
    ended_.push_back(entry);
    any_ended_ = true;
  }

  static std::atomic<Hook *> active;

 private:
  // For calls on the deck that no operator makes: its memory and device may call operators, which are not the step's.
  struct Apart {
    explicit Apart(Hook *hook) : locked(hook->lock_), inside(KEY) {}
    std::lock_guard<std::recursive_mutex> locked;
    c10::impl::ExcludeDispatchKeyGuard inside;
  };

  [[noreturn]] void fail() const
  {
    td_error error = *td_deck_error(deck_);
    py::gil_scoped_acquire gil;
    py::object exception = error_(static_cast<int>(error.status), std::string(error.message));
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    python_error thrown;
    thrown.persist();
    throw thrown;
  }

  void leave()
  {
    c10::impl::tls_set_dispatch_key_included(KEY, false);
    active = nullptr;
    paused_ = 0;
  }

  // ---- operators ----

  static bool holds_tensors(const c10::TypePtr &type)
  {
    switch (type->kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::StorageType: return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::TupleType:
      for (const auto &inner : type->containedTypes())
        if (holds_tensors(inner)) return true;
      return false;
    default: return false;
    }
  }

  const Operator &operator_of(const c10::OperatorHandle &op)
  {
    const c10::FunctionSchema &schema = op.schema();
    auto found = operators_.find(&schema);
    if (found != operators_.end()) return *found->second;
    auto known = std::make_unique<Operator>();
    const std::string &name = schema.name(); // "aten::add"
    const size_t colons = name.find("::");
    known->skipped = skipped_.count(name.substr(0, colons)) > 0;
    known->asynchronous = asynchronous_.count(name.substr(0, colons)) > 0;
    known->name = name.substr(0, colons) + "." + name.substr(colons + 2) + "." +
                  (schema.overload_name().empty() ? "default" : schema.overload_name());
    for (size_t i = 0; i < schema.arguments().size(); i++) {
      const c10::Argument &argument = schema.arguments()[i];
      bool written = argument.alias_info() && argument.alias_info()->isWrite();
      known->arguments.push_back(!holds_tensors(argument.type()) ? Operator::none : written ? Operator::writes : Operator::reads);
      if (argument.name() == "device") known->device = static_cast<int>(i);
    }
    auto silent = silent_.find(name);
    if (silent != silent_.end() && schema.overload_name().empty()) {
      known->when = silent->second.second;
      for (size_t i : silent->second.first) known->arguments.at(i) = known->when < 0 ? Operator::writes : Operator::writes_when;
    }
    return *(operators_[&schema] = std::move(known));
  }

  // Tensors without bytes, as compilers use them, are no part of the step.
  static bool is_meta(const Operator &known, const torch::jit::Stack &stack)
  {
    const size_t first = stack.size() - known.arguments.size();
    if (known.device >= 0 && stack[first + known.device].isDevice()) return stack[first + known.device].toDevice().is_meta();
    for (size_t i = 0; i < known.arguments.size(); i++)
      if (known.arguments[i] && stack[first + i].isTensor()) {
        const at::Tensor &tensor = stack[first + i].toTensor();
        return tensor.defined() && tensor.is_meta();
      }
    return false;
  }

  void finish_op(uint64_t leaves)
  {
    if (td_leaves(deck_, leaves)) fail();
    if (resident_ > peak_) peak_ = resident_;
    if (measure_) peak_ = std::max(peak_, live_bytes());
    if (td_op_end(deck_, TD_MEASURE)) fail();
    in_op_ = false;
  }

  void pin_all(const c10::IValue &value)
  {
    if (value.isTensor()) pin(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector()) pin(tensor);
    else if (value.isList())
      for (const c10::IValue &item : value.toListRef()) pin_all(item);
  }

  void touch(const c10::IValue &value, bool written)
  {
    if (value.isTensor()) {
      touch(value.toTensor(), written);
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector()) touch(tensor, written);
    } else if (value.isList()) {
      for (const c10::IValue &item : value.toListRef()) touch(item, written);
    } else if (value.isTuple()) {
      for (const c10::IValue &item : value.toTupleRef().elements()) touch(item, written);
    } else if (value.isStorage()) {
      touch_storage(value.toStorage(), written);
    }
  }

  void touch(const at::Tensor &tensor, bool written)
  {
    if (!tensor.defined()) return;
    c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    if (impl->is_wrapped_number()) return;
    if (impl->has_storage()) touch_storage(impl->unsafe_storage(), written);
    else touch_parts(tensor);
  }

  void touch_storage(const c10::Storage &storage, bool written)
  {
    Entry *entry = entry_of(storage);
    if (!entry || !entry->storage.id) return;
    if (written ? td_write(deck_, entry->storage) : td_read(deck_, entry->storage)) fail();
  }

  // A sparse tensor has no storage, but is made of tensors that have: those that the deck moves must be there.
  void touch_parts(const at::Tensor &tensor)
  {
    std::vector<at::Tensor> parts;
    if (tensor.layout() == c10::kSparse) parts = {tensor._indices(), tensor._values()};
    else if (tensor.layout() == c10::kSparseCsr || tensor.layout() == c10::kSparseBsr) parts = {tensor.crow_indices(), tensor.col_indices(), tensor.values()};
    else if (tensor.layout() == c10::kSparseCsc || tensor.layout() == c10::kSparseBsc) parts = {tensor.ccol_indices(), tensor.row_indices(), tensor.values()};
    for (const at::Tensor &part : parts) {
      Entry *entry = known_of(part);
      if (entry && entry->storage.id && td_read(deck_, entry->storage)) fail();
    }
  }

  // Counts the leaves of a value and binds those that have a storage.
  void output(const c10::IValue &value, uint64_t &leaf)
  {
    if (value.isTensor()) {
      output(value.toTensor(), leaf);
      leaf++;
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector()) {
        output(tensor, leaf);
        leaf++;
      }
    } else if (value.isList()) {
      for (const c10::IValue &item : value.toListRef()) output(item, leaf);
    } else if (value.isTuple()) {
      for (const c10::IValue &item : value.toTupleRef().elements()) output(item, leaf);
    } else {
      leaf++;
    }
  }

  void output(const at::Tensor &tensor, uint64_t leaf)
  {
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
    const c10::Storage &storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    if (storage.device() != device_) return;
    Entry *entry = known(storage.unsafeGetStorageImpl());
    if (entry && replaced(entry, storage)) {
      end_entry(entry);
      entry = nullptr;
    }
    if (!entry) entry = regions_ ? make_found(storage) : new_activation(storage);
    else if (!entry->adopted && (entry->storage.id || !regions_)) update_size(entry, storage);
    if (entry->storage.id && td_output(deck_, leaf, entry->storage)) fail();
  }

  // ---- storages ----

  static c10::DataPtr &data_of(c10::StorageImpl *impl)
  {
    return impl->_mutable_data_ptr_no_checks();
  }

  static bool owns(const Entry *entry, c10::StorageImpl *impl)
  {
    return data_of(impl).get_deleter() == gone && data_of(impl).get_context() == entry;
  }

  Entry *known(c10::StorageImpl *impl)
  {
    const c10::DataPtr &data = data_of(impl);
    if (data.get_deleter() == gone && data.get_context()) return static_cast<Entry *>(data.get_context());
    auto found = by_address_.find(impl);
    return found == by_address_.end() ? nullptr : found->second;
  }

  Entry *known_of(const at::Tensor &tensor)
  {
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
    return known(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  }

  Entry *make(const c10::Storage &storage)
  {
    entries_.emplace_back();
    Entry *entry = &entries_.back();
    entry->hook = this;
    entry->impl = storage.getWeakStorageImpl();
    entry->allocator = storage.unsafeGetStorageImpl()->allocator();
    entry->size = storage.unsafeGetStorageImpl()->nbytes();
    return entry;
  }

  // Found by its address: what is not wrapped.
  Entry *make_found(const c10::Storage &storage)
  {
    return by_address_[storage.unsafeGetStorageImpl()] = make(storage);
  }

  void born(Entry *entry)
  {
    if (td_storage_born(deck_, reinterpret_cast<uint64_t>(entry), entry->size, &entry->storage)) fail();
  }

  void update_size(Entry *entry, const c10::Storage &storage)
  {
    size_t size = storage.unsafeGetStorageImpl()->nbytes();
    if (!entry->storage.id) born(entry); /* made inside a region, and used outside */
    if (size == entry->size) return;
    entry->size = size;
    if (td_storage_resized(deck_, entry->storage, size)) fail();
  }

  // Somebody gave an activation other bytes. (A wrapped one tells that itself.)
  static bool replaced(const Entry *entry, const c10::Storage &storage)
  {
    return entry->adopted && !entry->wrapped && entry->present && entry->size != storage.unsafeGetStorageImpl()->nbytes();
  }

  // The entry of a storage that an operator reads; NULL if it lies elsewhere.
  Entry *entry_of(const c10::Storage &storage)
  {
    Entry *entry = known(storage.unsafeGetStorageImpl());
    if (entry && !replaced(entry, storage)) {
      if (!entry->adopted && (entry->storage.id || !regions_)) update_size(entry, storage);
      return entry;
    }
    if (entry) end_entry(entry);
    if (storage.device() != device_) return nullptr;
    entry = make_found(storage);
    born(entry);
    return entry;
  }

  void entry_of(const at::Tensor &tensor)
  {
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
    entry_of(tensor.unsafeGetTensorImpl()->unsafe_storage());
  }

  static bool movable(c10::StorageImpl *impl)
  {
    return impl->resizable() && impl->allocator() && impl->nbytes() > 0 && data_of(impl).get() && !c10::impl::cow::is_cow_data_ptr(data_of(impl)) &&
           !impl->has_materializer();
  }

  Entry *new_activation(const c10::Storage &storage)
  {
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    const bool moves = movable(impl);
    Entry *entry = wrap_ && moves ? make(storage) : make_found(storage);
    if (moves && td_storage_adopt(deck_, reinterpret_cast<uint64_t>(entry), entry->size, &entry->storage)) fail();
    if (!moves) born(entry);
    entry->adopted = moves;
    if (moves) resident_ += entry->size;
    if (wrap_ && moves) {
      entry->wrapped = true;
      entry->bytes = std::move(data_of(impl));
      show(entry, impl);
    } else {
      watched_.push_back(entry);
    }
    return entry;
  }

  // The StorageImpl points to the entry's bytes, or to none.
  static void show(Entry *entry, c10::StorageImpl *impl)
  {
    c10::Device device = data_of(impl).device();
    if (entry->wrapped) data_of(impl).release_context(); // its deleter would tell of an end
    impl->set_data_ptr_noswap(c10::DataPtr(entry->bytes.get(), entry->wrapped ? entry : nullptr, gone, device));
  }

  // The StorageImpl owns its bytes again.
  static void unwrap(Entry *entry, c10::StorageImpl *impl)
  {
    if (!entry->wrapped || !impl || !owns(entry, impl)) return;
    data_of(impl).release_context();
    impl->set_data_ptr_noswap(std::move(entry->bytes));
  }

  // ---- ends ----

  // Storages that ended since the last operator. Inside a region they wait for its end, since its op may have named them.
  void tell_ended()
  {
    if (regions_) return;
    if (any_ended_) {
      std::vector<Entry *> ended;
      {
        std::lock_guard<std::mutex> locked(ended_lock_);
        ended.swap(ended_);
        any_ended_ = false;
      }
      for (Entry *entry : ended) end_entry(entry);
    }
    size_t kept = 0;
    for (Entry *entry : watched_) {
      if (entry->told) continue;
      if (entry->impl.expired()) end_entry(entry);
      else watched_[kept++] = entry;
    }
    watched_.resize(kept);
  }

  void end_entry(Entry *entry)
  {
    if (entry->told) return;
    entry->told = true;
    if (entry->adopted && entry->present) resident_ -= entry->size;
    if (entry->storage.id) td_storage_freed(deck_, entry->storage);
    if (!entry->wrapped) by_address_.erase(entry->impl._unsafe_get_target());
    if (!entry->holds) release(entry);
  }

  static void release(Entry *entry)
  {
    entry->bytes.clear();
    entry->impl.reset();
  }

  // After the step all storages are PyTorch's alone.
  void forget()
  {
    for (Entry &entry : entries_) {
      if (entry.told) continue;
      auto impl = entry.impl.lock();
      unwrap(&entry, impl.get());
      if (entry.storage.id) td_storage_freed(deck_, entry.storage);
    }
    std::lock_guard<std::mutex> locked(ended_lock_);
    ended_.clear();
    any_ended_ = false;
    watched_.clear();
    by_address_.clear();
    entries_.clear();
    resident_ = oldest_node_ = 0;
    regions_ = 0;
    in_op_ = false;
  }

  // ---- regions ----

  // A node that is older than an open region is no part of its backward pass.
  void leave_older_regions()
  {
    if (!oldest_node_) return;
    auto node = torch::autograd::get_current_node();
    if (!node || node->sequence_nr() >= oldest_node_) return;
    py::gil_scoped_acquire gil;
    left_(node->sequence_nr());
  }

  void read_inside(const std::vector<at::Tensor> &tensors)
  {
    if (td_op_begin(deck_, "inputs")) fail();
    for (const at::Tensor &tensor : tensors) touch(tensor, false);
    if (td_op_end(deck_, 0)) fail();
  }

  // The outermost region's outputs are its op's; what was made inside becomes an activation with that.
  void tell_outputs(const std::vector<std::optional<at::Tensor>> &outputs)
  {
    if (regions_ != 1) return;
    regions_ = 0;
    uint64_t leaf = 0;
    for (const auto &tensor : outputs) {
      if (tensor) {
        Entry *entry = known_of(*tensor);
        if (entry && !entry->storage.id) end_entry(entry);
        output(*tensor, leaf);
      }
      leaf++;
    }
    regions_ = 1;
    if (td_leaves(deck_, leaf)) fail();
    peak_ = std::max(peak_, resident_);
  }

  // ---- the deck's calls: where bytes are ----

  static bool alloc(void *context, uint64_t key, uint64_t bytes)
  {
    Entry *entry = reinterpret_cast<Entry *>(key);
    auto impl = entry->impl.lock();
    c10::DataPtr fresh;
    try {
      fresh = entry->allocator->allocate(bytes);
    } catch (const std::exception &) {
      return false;
    }
    const bool ours = impl && (!entry->wrapped || owns(entry, impl.get()));
    if (ours) impl->clear_data_ptr_access_error_msg_();
    if (ours && !entry->wrapped) {
      impl->set_data_ptr_noswap(std::move(fresh));
    } else {
      entry->bytes = std::move(fresh);
      if (ours) show(entry, impl.get());
    }
    if (ours) impl->set_nbytes(bytes);
    entry->present = true;
    static_cast<Hook *>(context)->resident_ += bytes;
    return true;
  }

  static void free(void *context, uint64_t key, uint64_t bytes)
  {
    Entry *entry = reinterpret_cast<Entry *>(key);
    auto impl = entry->impl.lock();
    if (impl && (!entry->wrapped || owns(entry, impl.get()))) {
      entry->bytes.clear();
      show(entry, impl.get());
      impl->set_nbytes(0);
      impl->release_data_and_set_meta_custom_data_ptr_error_msg_(AWAY);
    }
    entry->bytes.clear();
    entry->present = false;
    static_cast<Hook *>(context)->resident_ -= bytes;
  }

  // A storage whose end was not told at once has no bytes left; what is copied for it then is nobody's.
  static void *pointer(void *, uint64_t key)
  {
    Entry *entry = reinterpret_cast<Entry *>(key);
    if (!entry->wrapped && !entry->bytes) {
      auto impl = entry->impl.lock();
      if (impl) return data_of(impl.get()).mutable_get();
      entry->bytes = entry->allocator->allocate(entry->size);
    }
    return entry->bytes.mutable_get();
  }

  static void hold(void *, uint64_t key)
  {
    Entry *entry = reinterpret_cast<Entry *>(key);
    entry->holds++;
    if (!entry->wrapped && !entry->held) entry->held = entry->impl.lock();
  }

  // True: the storage, or at least its bytes, are still there.
  static bool drop(void *, uint64_t key)
  {
    Entry *entry = reinterpret_cast<Entry *>(key);
    if (--entry->holds) return true;
    entry->held.reset();
    const bool there = entry->wrapped || !entry->impl.expired();
    if (entry->told) release(entry);
    return there;
  }

  td_deck *deck_;
  c10::Device device_;
  py::object error_;
  const Silent silent_;
  const Names skipped_, asynchronous_;
  const bool wrap_;
  bool measure_ = false;

  std::recursive_mutex lock_; // operators of several threads come one after the other
  bool in_op_ = false;
  int paused_ = 0, regions_ = 0;
  uint64_t oldest_node_ = 0; // 0: none
  py::object left_;
  std::unordered_map<const void *, std::unique_ptr<Operator>> operators_; // by schema

  std::deque<Entry> entries_; // of this step
  std::unordered_map<c10::StorageImpl *, Entry *> by_address_;
  std::vector<Entry *> watched_; // their end shows when the weak reference expires
  std::mutex ended_lock_;
  std::vector<Entry *> ended_;
  std::atomic<bool> any_ended_{false};
  uint64_t resident_ = 0, peak_ = 0, pinned_ = 0;
};

std::atomic<Hook *> Hook::active{nullptr};

// The StorageImpl is gone, or somebody gave it other bytes.
void gone(void *context)
{
  Entry *entry = static_cast<Entry *>(context);
  entry->hook->storage_gone(entry);
}

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
  c10::impl::ExcludeDispatchKeyGuard inside(KEY);
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY);
  Hook *hook = Hook::active;
  if (hook) hook->run(op, below, stack);
  else op.redispatchBoxed(below, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, m)
{
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
  using torch::wrap_pybind_function;
  using torch::wrap_pybind_function_no_gil;
  py::class_<Hook>(m, "Hook")
      .def(py::init<uintptr_t, c10::Device, py::object, Hook::Silent, Hook::Names, Hook::Names, bool>())
      .def("begin", wrap_pybind_function(&Hook::begin))
      .def("end", wrap_pybind_function(&Hook::end))
      .def("abort", wrap_pybind_function(&Hook::abort))
      .def("pause", wrap_pybind_function(&Hook::pause))
      .def("call_begin", wrap_pybind_function_no_gil(&Hook::call_begin))
      .def("call_end", wrap_pybind_function_no_gil(&Hook::call_end))
      .def("call_abort", wrap_pybind_function_no_gil(&Hook::call_abort))
      .def("region_begin", wrap_pybind_function_no_gil(&Hook::region_begin))
      .def("region_end", wrap_pybind_function_no_gil(&Hook::region_end))
      .def("region_backward_begin", wrap_pybind_function_no_gil(&Hook::region_backward_begin))
      .def("region_backward_end", wrap_pybind_function_no_gil(&Hook::region_backward_end))
      .def("region_abort", wrap_pybind_function_no_gil(&Hook::region_abort))
      .def("watch_nodes", wrap_pybind_function(&Hook::watch_nodes))
      .def("restore", wrap_pybind_function_no_gil(&Hook::restore))
      .def("pin", wrap_pybind_function_no_gil(&Hook::pin))
      .def("live_bytes", &Hook::live_bytes)
      .def("measure", &Hook::set_measure)
      .def_property_readonly("peak_bytes", &Hook::peak)
      .def_property_readonly("pinned_bytes", &Hook::pinned);
}
