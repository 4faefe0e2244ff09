// SPDX-License-Identifier: Apache-2.0
// A list wants five values of each sidecar: they are picked while the text is parsed, and nothing else is kept.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "libcore/store/json_read.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {
namespace {

using Json = nlohmann::json;

class Picker : public nlohmann::json_sax<Json> {
 public:
  explicit Picker(SidecarSummary& out) : out_(out) {}

  bool null() override {
    if (depth_ != kTop || key_ != "window") return !wanted();
    out_.seconds = 0;
    return true;
  }
  bool boolean(bool /*value*/) override { return !wanted(); }
  bool number_integer(number_integer_t value) override {
    return seconds() ? take(out_.seconds, static_cast<double>(value)) : !wanted();
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (seconds()) return take(out_.seconds, static_cast<double>(value));
    if (depth_ == kTop && key_ == "size_bytes") return take(out_.size_bytes, value);
    if (depth_ == kTop && key_ == "samples") return take(out_.samples, value);
    return !wanted();
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return seconds() ? take(out_.seconds, value) : !wanted();
  }
  bool string(string_t& value) override {
    if (depth_ != kTop) return !seconds();
    if (key_ == "reason") return take(out_.reason, std::move(value));
    if (key_ == "boot_id") return take(out_.boot_id, std::move(value));
    for (auto& [name, there] : needed_)
      if (key_ == name) return take(there, !value.empty());
    return !wanted();
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    if (depth_ == kTop) in_window_ = key_ == "window";
    if (in_window_ && depth_ == kTop)
      out_.seconds = 0;  // of two windows the last one counts, as for every reader
    else if (wanted())
      return false;
    return deeper();
  }
  bool key(string_t& name) override {
    if (depth_ == kTop || depth_ == kInWindow) key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (--depth_ == kTop) in_window_ = false;
    return true;
  }
  bool start_array(std::size_t /*size*/) override { return depth_ > 0 && !wanted() && deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*why*/) override {
    return false;
  }

  // The names without which it is no sidecar.
  [[nodiscard]] bool complete() const {
    return std::all_of(needed_.begin(), needed_.end(), [](const auto& one) { return one.second; });
  }

 private:
  static constexpr int kTop = 1;
  static constexpr int kInWindow = 2;

  template <typename To, typename From>
  static bool take(To& out, From&& value) {
    out = std::forward<From>(value);
    return true;
  }
  bool deeper() { return ++depth_ <= kMaxJsonDepth + 1; }
  [[nodiscard]] bool seconds() const { return depth_ == kInWindow && in_window_ && key_ == "seconds"; }
  // Whether a value is read here, so that one of another type ends the parse.
  [[nodiscard]] bool wanted() const {
    if (depth_ != kTop) return seconds();
    for (const char* name : {"reason", "boot_id", "size_bytes", "samples", "window", "id", "path", "trigger"})
      if (key_ == name) return true;
    return false;
  }

  SidecarSummary& out_;
  std::string key_;  // of the value that comes, on the two levels that are looked at
  int depth_ = 0;
  bool in_window_ = false;
  std::array<std::pair<const char*, bool>, 3> needed_{{{"id", false}, {"path", false}, {"trigger", false}}};
};

}  // namespace

namespace {

std::optional<SidecarSummary> pick(std::string_view text) {
  SidecarSummary out;
  Picker picker(out);
  if (!Json::sax_parse(text, &picker) || !picker.complete()) return std::nullopt;
  return out;
}

}  // namespace

Result<SidecarSummary> summarize_sidecar(std::string_view text) {
  if (text.size() > kMaxSidecarBytes)
    return fail(std::errc::file_too_large, "{} bytes of JSON are more than the {} allowed", text.size(),
                kMaxSidecarBytes);
  // The metrics are most of it, and nothing of them is wanted.
  if (const std::size_t metrics = text.find(kMetricsLine); metrics != std::string_view::npos)
    if (auto summary = pick(std::string(text.substr(0, metrics)) + '}')) return std::move(*summary);
  if (auto summary = pick(text)) return std::move(*summary);
  return fail(std::errc::bad_message, "the text is no sidecar, or was cut off");
}

}  // namespace flight
