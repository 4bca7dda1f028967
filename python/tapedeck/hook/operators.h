// What is known of an operator, once for each.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace tapedeck {

struct Operator {
  enum Use : uint8_t { none, reads, writes, writes_when };
  std::string name; // "aten.add.Tensor"
  std::vector<Use> arguments;
  int when = -1;   // the argument that says whether one writes
  int device = -1; // the argument that says where a new tensor lies
  bool skipped = false;      // no operation of the step
  bool asynchronous = false; // goes on with its tensors after it returned

  // Tensors without bytes, as compilers use them, are no part of the step.
  bool is_meta(const torch::jit::Stack &stack) const
  {
    const size_t first = stack.size() - arguments.size();
    if (device >= 0 && stack[first + device].isDevice()) return stack[first + device].toDevice().is_meta();
    for (size_t i = 0; i < arguments.size(); i++)
      if (arguments[i] && stack[first + i].isTensor()) {
        const at::Tensor &tensor = stack[first + i].toTensor();
        return tensor.defined() && tensor.is_meta();
      }
    return false;
  }
};

class Operators {
 public:
  using Silent = std::unordered_map<std::string, std::pair<std::vector<size_t>, int>>;
  using Names = std::unordered_set<std::string>;

  // What operators.py knows.
  Operators(Silent silent, Names skipped, Names asynchronous)
      : silent_(std::move(silent)), skipped_(std::move(skipped)), asynchronous_(std::move(asynchronous))
  {
  }

  const Operator &of(const c10::OperatorHandle &op)
  {
    const c10::FunctionSchema &schema = op.schema();
    auto found = known_.find(&schema);
    if (found != known_.end()) return *found->second;
    return *(known_[&schema] = learn(schema));
  }

 private:
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

  std::unique_ptr<Operator> learn(const c10::FunctionSchema &schema) const
  {
    auto op = std::make_unique<Operator>();
    const std::string &name = schema.name(); // "aten::add"
    const std::string space = name.substr(0, name.find("::"));
    op->skipped = skipped_.count(space) > 0;
    op->asynchronous = asynchronous_.count(space) > 0;
    op->name = space + "." + name.substr(space.size() + 2) + "." + (schema.overload_name().empty() ? "default" : schema.overload_name());
    for (size_t i = 0; i < schema.arguments().size(); i++) {
      const c10::Argument &argument = schema.arguments()[i];
      const bool written = argument.alias_info() && argument.alias_info()->isWrite();
      op->arguments.push_back(!holds_tensors(argument.type()) ? Operator::none : written ? Operator::writes : Operator::reads);
      if (argument.name() == "device") op->device = static_cast<int>(i);
    }
    auto silent = silent_.find(name);
    if (silent == silent_.end() || !schema.overload_name().empty()) return op;
    op->when = silent->second.second;
    for (size_t i : silent->second.first) op->arguments.at(i) = op->when < 0 ? Operator::writes : Operator::writes_when;
    return op;
  }

  const Silent silent_;
  const Names skipped_, asynchronous_;
  std::unordered_map<const void *, std::unique_ptr<Operator>> known_; // by schema
};

} // namespace tapedeck
