// SPDX-License-Identifier: Apache-2.0
// A small, strict parser of Varlink's interface language (https://varlink.org/Interface-Definition), and a check of
// JSON values against its types: the description must match what is sent.
#pragma once

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace flight::test {

struct IdlType {
  enum class Kind { boolean, integer, floating, string, object, named, structure, enumeration, array };
  Kind kind = Kind::structure;
  bool nullable = false;
  std::string name;              // of a named type
  std::vector<IdlType> element;  // the element type of an array
  std::vector<std::pair<std::string, IdlType>> fields;
  std::set<std::string> words;  // of an enumeration
};

struct Idl {
  std::string interface;
  std::map<std::string, IdlType> types, errors;
  std::map<std::string, std::pair<IdlType, IdlType>> methods;  // parameters and reply
};

class IdlParser {
 public:
  // Throws std::runtime_error with the unparsed rest of the text.
  static Idl parse(std::string_view text) {
    IdlParser parser(text);
    Idl idl;
    parser.keyword("interface");
    idl.interface = parser.interface_name();
    while (!parser.at_end()) {
      const std::string word = parser.word();
      const std::string name = parser.word();
      if (std::isupper(static_cast<unsigned char>(name[0])) == 0) parser.wrong(name + " must begin with a capital");
      if (word == "method") {
        IdlType in = parser.structure();
        parser.sign("->");
        idl.methods.emplace(name, std::pair(in, parser.structure()));
      } else if (word == "type") {
        idl.types.emplace(name, parser.structure());
      } else if (word == "error") {
        idl.errors.emplace(name, parser.structure());
      } else {
        parser.wrong("not a member: " + word);
      }
    }
    return idl;
  }

 private:
  explicit IdlParser(std::string_view text) : rest_(text) {}

  [[noreturn]] void wrong(const std::string& why) const {
    throw std::runtime_error(why + " before: " + std::string(rest_.substr(0, 60)));
  }
  void skip_space() {
    for (;;) {
      while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0) rest_.remove_prefix(1);
      if (rest_.empty() || rest_[0] != '#') return;
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    }
  }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }
  bool take(std::string_view text) {
    skip_space();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void sign(std::string_view text) {
    if (!take(text)) wrong("expected " + std::string(text));
  }
  // [A-Za-z]([_]?[A-Za-z0-9])*
  std::string word() {
    skip_space();
    std::size_t end = 0;
    const auto alnum = [&](std::size_t at) {
      return at < rest_.size() && std::isalnum(static_cast<unsigned char>(rest_[at])) != 0;
    };
    while (alnum(end) || (end > 0 && end < rest_.size() && rest_[end] == '_' && alnum(end + 1))) ++end;
    if (end == 0 || std::isalpha(static_cast<unsigned char>(rest_[0])) == 0) wrong("expected a name");
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return name;
  }
  void keyword(const std::string& expected) {
    if (word() != expected) wrong("expected " + expected);
  }
  std::string interface_name() {
    std::string name = word();
    while (!rest_.empty() && rest_[0] == '.') {
      rest_.remove_prefix(1);
      name += '.' + word();
    }
    return name;
  }
  IdlType structure() {
    IdlType type;
    sign("(");
    if (take(")")) return type;
    do {
      const std::string name = word();
      if (take(":")) {
        if (type.kind == IdlType::Kind::enumeration) wrong("a field in an enumeration");
        for (const auto& field : type.fields)
          if (field.first == name) wrong("twice: " + name);
        type.fields.emplace_back(name, any_type());
      } else {
        if (!type.fields.empty()) wrong("a word in a structure");
        type.kind = IdlType::Kind::enumeration;
        type.words.insert(name);
      }
    } while (take(","));
    sign(")");
    return type;
  }
  IdlType any_type() {
    IdlType type;
    type.nullable = take("?");
    if (take("[]")) {
      type.kind = IdlType::Kind::array;
      type.element.push_back(any_type());
      return type;
    }
    skip_space();
    if (rest_.starts_with("(")) {
      IdlType inner = structure();
      inner.nullable = type.nullable;
      return inner;
    }
    const std::string name = word();
    static const std::map<std::string, IdlType::Kind> kBuiltIn{{"bool", IdlType::Kind::boolean},
                                                               {"int", IdlType::Kind::integer},
                                                               {"float", IdlType::Kind::floating},
                                                               {"string", IdlType::Kind::string},
                                                               {"object", IdlType::Kind::object}};
    const auto found = kBuiltIn.find(name);
    type.kind = found == kBuiltIn.end() ? IdlType::Kind::named : found->second;
    type.name = name;
    return type;
  }

  std::string_view rest_;
};

// Empty if `value` has the type `type` and no other members.
inline std::string mismatch(const Idl& idl, const IdlType& type, const nlohmann::json& value,
                            const std::string& where) {
  using Kind = IdlType::Kind;
  if (value.is_null()) return type.nullable ? "" : where + " is null";
  switch (type.kind) {
    case Kind::boolean:
      return value.is_boolean() ? "" : where + " is no bool";
    case Kind::integer:
      return value.is_number_integer() ? "" : where + " is no int";
    case Kind::floating:
      return value.is_number() ? "" : where + " is no float";
    case Kind::string:
      return value.is_string() ? "" : where + " is no string";
    case Kind::object:
      return value.is_object() ? "" : where + " is no object";
    case Kind::enumeration:
      return value.is_string() && type.words.count(value.get<std::string>()) == 1 ? "" : where + " is no such word";
    case Kind::named: {
      const auto found = idl.types.find(type.name);
      return found == idl.types.end() ? where + ": no type " + type.name : mismatch(idl, found->second, value, where);
    }
    case Kind::array:
      if (!value.is_array()) return where + " is no array";
      for (const auto& one : value)
        if (auto wrong = mismatch(idl, type.element[0], one, where + "[]"); !wrong.empty()) return wrong;
      return "";
    case Kind::structure:
      break;
  }
  if (!value.is_object()) return where + " is no object";
  std::set<std::string> known;
  for (const auto& [name, field] : type.fields) {
    known.insert(name);
    if (!value.contains(name)) {
      if (!field.nullable) return where + '.' + name + " is missing";
    } else if (auto wrong = mismatch(idl, field, value[name], where + '.' + name); !wrong.empty()) {
      return wrong;
    }
  }
  for (const auto& entry : value.items())
    if (known.count(entry.key()) == 0) return where + '.' + entry.key() + " is not described";
  return "";
}

}  // namespace flight::test
