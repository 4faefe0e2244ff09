// SPDX-License-Identifier: Apache-2.0
// A list needs only a few values of each sidecar: they are taken while the text is parsed, and the rest is not kept.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "libcore/json/events.hpp"
#include "libcore/json/parse.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {
namespace {

class Picker : public json::Events {
 public:
  explicit Picker(SidecarSummary& out) : out_(out) {}

  bool null() override {
    if (depth_ == kTop && key_ == "kallsyms") {
      out_.kallsyms.reset();
      return fits();
    }
    if (depth_ == kTop && key_ == "record") {
      begin_record();
      out_.record.reset();
      return true;
    }
    if (in_record() && key_ == "ended") return take(out_.record->ended, std::nullopt);
    if (depth_ != kTop || key_ != "window") return other_type();
    out_.seconds = 0;
    bad_.erase("seconds");
    return fits();
  }
  bool flag(bool /*value*/) override { return other_type(); }
  bool negative(std::int64_t value) override {
    if (value == 0) return whole(0);  // -0
    return seconds() ? take(out_.seconds, static_cast<double>(value)) : other_type();
  }
  bool whole(std::uint64_t value) override {
    if (seconds()) return take(out_.seconds, static_cast<double>(value));
    if (depth_ == kTop && key_ == "size_bytes") return take(out_.size_bytes, value);
    if (depth_ == kTop && key_ == "samples") return take(out_.samples, value);
    if (in_record() && key_ == "part") return take(out_.record->part, value);
    return other_type();
  }
  bool number(double value) override { return seconds() ? take(out_.seconds, value) : other_type(); }
  bool text(std::string& value) override {
    if (depth_ == kInRow && in_units_ && row_key_ == (new_units_ ? "name" : "unit")) take_unit(value);
    if (in_record() && key_ == "first") return take(out_.record->first, std::move(value));
    if (in_record() && key_ == "ended") return take(out_.record->ended, std::move(value));
    if (depth_ != kTop) return other_type();
    if (key_ == "reason") return take(out_.reason, std::move(value));
    if (key_ == "boot_id") return take(out_.boot_id, std::move(value));
    if (key_ == "kallsyms") return take(out_.kallsyms, std::move(value));
    for (auto& [name, there] : needed_)
      if (key_ == name) return take(there, !value.empty());
    return other_type();
  }
  bool begin_object() override {
    if (depth_ == kTop) {
      in_window_ = key_ == "window";
      in_record_ = key_ == "record";
    }
    if (in_record_ && depth_ == kTop) {
      begin_record();
    } else if (in_window_ && depth_ == kTop) {
      out_.seconds = 0;
      bad_.erase("seconds");
      fits();
    } else {
      other_type();
    }
    return deeper();
  }
  bool key(std::string& name) override {
    if (depth_ == kInRow && in_units_) row_key_ = name;
    if (depth_ == kTop || (depth_ == kInWindow && (in_window_ || in_record_)))
      key_ = name;  // the parser keeps its buffer
    return true;
  }
  bool end_object() override {
    if (--depth_ == kTop) in_window_ = in_record_ = false;
    return true;
  }
  bool begin_array() override {
    if (depth_ == kTop) begin_units();
    return depth_ > 0 && other_type() && deeper();
  }
  bool end_array() override {
    if (--depth_ == kTop) in_units_ = false;
    return true;
  }

  // Whether the required keys are present, and each value that is read here has its type.
  [[nodiscard]] bool complete() const {
    return bad_.empty() && std::all_of(needed_.begin(), needed_.end(), [](const auto& one) { return one.second; });
  }

 private:
  static constexpr int kTop = 1;
  static constexpr int kInWindow = 2;  // or in the record
  static constexpr int kInRow = 3;

  template <typename To, typename From>
  bool take(To& out, From&& value) {
    out = std::forward<From>(value);
    return fits();
  }
  // If a key is given twice, the last value counts, as for every reader.
  bool fits() {
    bad_.erase(key_);
    return true;
  }
  bool other_type() {
    if (wanted()) bad_.insert(key_);
    return true;
  }
  // Nothing of an earlier one counts.
  void begin_record() {
    out_.record.emplace();
    for (const char* name : {"record", "first", "part", "ended"}) bad_.erase(name);
  }
  // top_units comes before top; only an old sidecar lacks it.
  void begin_units() {
    if (key_ == "top_units") new_units_ = true;
    in_units_ = key_ == "top_units" || (key_ == "top" && !new_units_);
  }
  void take_unit(const std::string& unit) {
    if (unit.empty() || unit == kUnknownUnit || out_.units.size() >= kMaxRowUnits) return;
    if (std::find(out_.units.begin(), out_.units.end(), unit) == out_.units.end()) out_.units.push_back(unit);
  }
  bool deeper() { return ++depth_ <= json::kMaxDepth; }
  [[nodiscard]] bool seconds() const { return depth_ == kInWindow && in_window_ && key_ == "seconds"; }
  [[nodiscard]] bool in_record() const { return depth_ == kInWindow && in_record_; }
  // Whether a value is read here and must have its type.
  [[nodiscard]] bool wanted() const {
    if (in_record()) return key_ == "first" || key_ == "part" || key_ == "ended";
    if (depth_ != kTop) return seconds();
    for (const char* name :
         {"reason", "boot_id", "kallsyms", "size_bytes", "samples", "window", "record", "id", "path", "trigger"})
      if (key_ == name) return true;
    return false;
  }

  SidecarSummary& out_;
  std::string key_;  // of the next value, on the two levels that are read
  int depth_ = 0;
  std::set<std::string> bad_;  // keys whose last value has a wrong type
  bool in_window_ = false, in_record_ = false;
  std::string row_key_;
  bool in_units_ = false, new_units_ = false;
  std::array<std::pair<const char*, bool>, 3> needed_{{{"id", false}, {"path", false}, {"trigger", false}}};
};

}  // namespace

namespace {

std::optional<SidecarSummary> pick(std::string_view text) {
  SidecarSummary out;
  Picker picker(out);
  if (!json::read_events(text, picker).complete || !picker.complete()) return std::nullopt;
  return out;
}

}  // namespace

Result<SidecarSummary> summarize_sidecar(std::string_view text) {
  if (text.size() > kMaxSidecarBytes)
    return fail(std::errc::file_too_large, "{} bytes of JSON are more than the {} allowed", text.size(),
                kMaxSidecarBytes);
  // What follows is the largest part of the text and is not needed.
  for (const std::string_view rest : {kProgramsLine, kMetricsLine})
    if (const std::size_t at = text.find(rest); at != std::string_view::npos)
      if (auto summary = pick(std::string(text.substr(0, at)) + '}')) return std::move(*summary);
  if (auto summary = pick(text)) return std::move(*summary);
  return fail(std::errc::bad_message, "the text is not a sidecar, or was truncated");
}

}  // namespace flight
