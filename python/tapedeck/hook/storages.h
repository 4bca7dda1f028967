// The storages of a step, as the deck knows them, and where their bytes are.
//
// A storage is a StorageImpl with a weak reference held, so its address is not used again. The bytes of an activation belong to an Entry:
// the StorageImpl has a pointer to them whose deleter tells of its end. They leave by making the storage empty and come back into the same
// one. What reads an empty one is told so by PyTorch, with our text.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/impl/COW.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <tapedeck/deck.h>

namespace tapedeck {

constexpr const char *AWAY = "the bytes of this tensor are on the host for now, and it is read outside of an operator:"
                             " call session.restore(tensor) before";

// The deck, and what makes a Python exception of its errors.
struct Deck {
  td_deck *handle;
  py::object error; // from a status and a message

  void check(td_status status) const
  {
    if (!status) return;
    const td_error what = *td_deck_error(handle);
    py::gil_scoped_acquire gil;
    py::object exception = error(static_cast<int>(what.status), std::string(what.message));
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    python_error thrown;
    thrown.persist();
    throw thrown;
  }
};

class Storages;

// A storage that the deck knows, or one that was made inside an opaque region, which it does not (storage.id is 0).
struct Entry {
  Storages *owner = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> impl{c10::intrusive_ptr<c10::StorageImpl>()};
  c10::Allocator *allocator = nullptr;
  c10::DataPtr bytes; // of a wrapped one, while they are on the device
  td_storage storage{0};
  size_t size = 0;
  bool adopted = false; // the deck moves it
  bool wrapped = false; // its end is told by the deleter
  bool present = true;  // its bytes are on the device
  bool told = false;    // the deck was told of its end
  unsigned holds = 0;   // copies that use the bytes
  c10::intrusive_ptr<c10::StorageImpl> held; // meanwhile, where the bytes are the StorageImpl's own
};

void gone(void *context);

class Storages {
 public:
  // `wrap` false: for allocators that look at their pointers' deleters. The end of a storage is then found by looking.
  Storages(const Deck &deck, c10::Device device, bool wrap) : deck_(deck), device_(device), wrap_(wrap) {}

  td_memory memory()
  {
    return {this, alloc, free, pointer, hold, drop};
  }

  // ---- finding ----

  static bool has_storage(const at::Tensor &tensor)
  {
    return tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.unsafeGetTensorImpl()->has_storage();
  }

  static const c10::Storage &storage_of(const at::Tensor &tensor)
  {
    return tensor.unsafeGetTensorImpl()->unsafe_storage();
  }

  Entry *known(const c10::Storage &storage) const
  {
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    const c10::DataPtr &data = data_of(impl);
    if (data.get_deleter() == gone && data.get_context()) return static_cast<Entry *>(data.get_context());
    auto found = by_address_.find(impl);
    return found == by_address_.end() ? nullptr : found->second;
  }

  Entry *known(const at::Tensor &tensor) const
  {
    return has_storage(tensor) ? known(storage_of(tensor)) : nullptr;
  }

  // The entry of what an operator takes; NULL if it lies elsewhere. `inside` an opaque region what was made there stays unknown.
  Entry *taken(const c10::Storage &storage, bool inside)
  {
    Entry *entry = current(storage, inside);
    if (entry || storage.device() != device_) return entry;
    entry = make_found(storage);
    born(entry);
    return entry;
  }

  // The entry of what an operator gives; a new one is an activation.
  Entry *given(const c10::Storage &storage, bool inside)
  {
    if (storage.device() != device_) return nullptr;
    Entry *entry = current(storage, inside);
    if (entry) return entry;
    return inside ? make_found(storage) : new_activation(storage);
  }

  // ---- ends ----

  // Storages that ended since the last operator.
  void tell_ended()
  {
    if (any_ended_) {
      std::vector<Entry *> ended;
      {
        std::lock_guard<std::mutex> locked(ended_lock_);
        ended.swap(ended_);
        any_ended_ = false;
      }
      for (Entry *entry : ended) end(entry);
    }
    size_t kept = 0;
    for (Entry *entry : watched_) {
      if (entry->told) continue;
      if (entry->impl.expired()) end(entry);
      else watched_[kept++] = entry;
    }
    watched_.resize(kept);
  }

  // The deck no longer knows it.
  void end(Entry *entry)
  {
    if (entry->told) return;
    entry->told = true;
    if (entry->adopted && entry->present) resident_ -= entry->size;
    if (entry->storage.id) td_storage_freed(deck_.handle, entry->storage);
    if (!entry->wrapped) by_address_.erase(entry->impl._unsafe_get_target());
    if (!entry->holds) release(entry);
  }

  // The storage, whose bytes are there, is PyTorch's alone.
  void let_go(Entry *entry)
  {
    unwrap(entry, entry->impl.lock().get());
    end(entry);
  }

  // After the step all are.
  void forget()
  {
    for (Entry &entry : entries_)
      if (!entry.told) let_go(&entry);
    std::lock_guard<std::mutex> locked(ended_lock_);
    ended_.clear();
    any_ended_ = false;
    watched_.clear();
    by_address_.clear();
    entries_.clear();
    resident_ = 0;
  }

  // From the deleter, at any time and on any thread.
  void note_end(Entry *entry)
  {
    std::lock_guard<std::mutex> locked(ended_lock_);
    ended_.push_back(entry);
    any_ended_ = true;
  }

  // ---- measures ----

  // Bytes of activations on the device.
  uint64_t resident() const
  {
    return resident_;
  }

  // The same, summed over the storages themselves.
  uint64_t live_bytes() const
  {
    uint64_t sum = 0;
    for (const Entry &entry : entries_) {
      auto impl = entry.adopted && !entry.told ? entry.impl.lock() : c10::intrusive_ptr<c10::StorageImpl>();
      if (impl) sum += impl->nbytes();
    }
    return sum;
  }

 private:
  static c10::DataPtr &data_of(c10::StorageImpl *impl)
  {
    return impl->_mutable_data_ptr_no_checks();
  }

  static bool owns(const Entry *entry, c10::StorageImpl *impl)
  {
    return data_of(impl).get_deleter() == gone && data_of(impl).get_context() == entry;
  }

  // ---- entries ----

  // The entry of a storage that is as it was; its size is kept up to date.
  Entry *current(const c10::Storage &storage, bool inside)
  {
    Entry *entry = known(storage);
    if (!entry) return nullptr;
    const size_t size = storage.unsafeGetStorageImpl()->nbytes();
    if (entry->adopted) {
      if (entry->wrapped || !entry->present || entry->size == size) return entry;
      end(entry); // somebody gave it other bytes; a wrapped one tells that itself
      return nullptr;
    }
    if (!entry->storage.id && inside) return entry;
    if (!entry->storage.id) born(entry); // made inside a region, and used outside
    if (size != entry->size) deck_.check(td_storage_resized(deck_.handle, entry->storage, size));
    entry->size = size;
    return entry;
  }

  Entry *make(const c10::Storage &storage)
  {
    entries_.emplace_back();
    Entry *entry = &entries_.back();
    entry->owner = this;
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
    deck_.check(td_storage_born(deck_.handle, reinterpret_cast<uint64_t>(entry), entry->size, &entry->storage));
  }

  static bool movable(c10::StorageImpl *impl)
  {
    return impl->resizable() && impl->allocator() && impl->nbytes() > 0 && data_of(impl).get() &&
           !c10::impl::cow::is_cow_data_ptr(data_of(impl)) && !impl->has_materializer();
  }

  Entry *new_activation(const c10::Storage &storage)
  {
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    const bool moves = movable(impl), wraps = moves && wrap_;
    Entry *entry = wraps ? make(storage) : make_found(storage);
    if (!wraps) watched_.push_back(entry);
    if (!moves) {
      born(entry);
      return entry;
    }
    deck_.check(td_storage_adopt(deck_.handle, reinterpret_cast<uint64_t>(entry), entry->size, &entry->storage));
    entry->adopted = true;
    resident_ += entry->size;
    if (!wraps) return entry;
    entry->wrapped = true;
    entry->bytes = std::move(data_of(impl));
    show(entry, impl);
    return entry;
  }

  // The StorageImpl points to the entry's bytes, or to none.
  static void show(Entry *entry, c10::StorageImpl *impl)
  {
    const c10::Device device = data_of(impl).device();
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

  static void release(Entry *entry)
  {
    entry->bytes.clear();
    entry->impl.reset();
  }

  // ---- the deck's calls ----

  static Entry *entry_of(uint64_t key)
  {
    return reinterpret_cast<Entry *>(key);
  }

  static bool alloc(void *context, uint64_t key, uint64_t bytes)
  {
    Entry *entry = entry_of(key);
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
    static_cast<Storages *>(context)->resident_ += bytes;
    return true;
  }

  static void free(void *context, uint64_t key, uint64_t bytes)
  {
    Entry *entry = entry_of(key);
    auto impl = entry->impl.lock();
    entry->bytes.clear();
    if (impl && (!entry->wrapped || owns(entry, impl.get()))) {
      show(entry, impl.get());
      impl->set_nbytes(0);
      impl->release_data_and_set_meta_custom_data_ptr_error_msg_(AWAY);
    }
    entry->present = false;
    static_cast<Storages *>(context)->resident_ -= bytes;
  }

  // A storage whose end was not told at once has no bytes left; what is copied for it then is nobody's.
  static void *pointer(void *, uint64_t key)
  {
    Entry *entry = entry_of(key);
    if (!entry->wrapped && !entry->bytes) {
      auto impl = entry->impl.lock();
      if (impl) return data_of(impl.get()).mutable_get();
      entry->bytes = entry->allocator->allocate(entry->size);
    }
    return entry->bytes.mutable_get();
  }

  static void hold(void *, uint64_t key)
  {
    Entry *entry = entry_of(key);
    entry->holds++;
    if (!entry->wrapped && !entry->held) entry->held = entry->impl.lock();
  }

  // True: the storage, or at least its bytes, are still there.
  static bool drop(void *, uint64_t key)
  {
    Entry *entry = entry_of(key);
    if (--entry->holds) return true;
    entry->held.reset();
    const bool there = entry->wrapped || !entry->impl.expired();
    if (entry->told) release(entry);
    return there;
  }

  const Deck &deck_;
  const c10::Device device_;
  const bool wrap_;
  std::deque<Entry> entries_; // of this step; they stay in place
  std::unordered_map<c10::StorageImpl *, Entry *> by_address_;
  std::vector<Entry *> watched_; // their end shows when the weak reference expires
  std::mutex ended_lock_;
  std::vector<Entry *> ended_;
  std::atomic<bool> any_ended_{false};
  uint64_t resident_ = 0;
};

// A pointer's deleter: the StorageImpl is gone, or somebody gave it other bytes.
inline void gone(void *context)
{
  Entry *entry = static_cast<Entry *>(context);
  entry->owner->note_end(entry);
}

} // namespace tapedeck
