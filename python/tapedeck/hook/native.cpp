// The native hook: a boxed fallback on a dispatch key of its own.
//
// The key is Fake: it lies below autograd and above every backend, and PyTorch 2.13 leaves it empty. A session includes it in the thread's
// keys, which autograd carries into the backward pass, so nothing is paid outside of a step. Operators that are called while one runs are
// that one's own affair: the key is excluded meanwhile.
#include <torch/library.h>

#include "hook.h"

namespace {

using tapedeck::Hook;
using tapedeck::KEY;

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
  c10::impl::ExcludeDispatchKeyGuard inside(KEY);
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY);
  Hook *hook = Hook::active;
  if (hook) hook->run(op, below, stack);
  else op.redispatchBoxed(below, stack);
}

// Not while the module is loaded, where an exception would end the process.
void take_key()
{
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(KEY))
    throw py::import_error("this PyTorch uses the dispatch key Fake itself");
  static torch::Library library(torch::Library::IMPL, "_", KEY, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
  using tapedeck::Operators;
  using torch::wrap_pybind_function;
  using torch::wrap_pybind_function_no_gil;
  take_key();
  py::class_<Hook>(m, "Hook")
      .def(py::init<uintptr_t, c10::Device, py::object, Operators::Silent, Operators::Names, Operators::Names, bool>())
      .def("begin", wrap_pybind_function(&Hook::begin))
      .def("end", wrap_pybind_function(&Hook::end))
      .def("abort", wrap_pybind_function(&Hook::abort))
      .def("join", wrap_pybind_function(&Hook::join))
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
