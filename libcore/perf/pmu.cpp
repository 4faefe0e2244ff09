// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/pmu.hpp"

#include <linux/perf_event.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "libcore/base/kernel_file.hpp"
#include "libcore/perf/event_names.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxSysfsBytes = 4096;  // a sysfs file is one page at most
constexpr std::size_t kMaxNames = 4096;

struct Term {
  std::string name;
  std::optional<std::string> value;  // nullopt: a word without a value
};

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<Term> split_terms(std::string_view text) {
  std::vector<Term> terms;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    Term& term = terms.emplace_back(Term{std::string(word.substr(0, equals)), std::nullopt});
    if (equals != std::string_view::npos) term.value = std::string(word.substr(equals + 1));
  }
  return terms;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  auto entries = open_kernel_folder(folder);
  if (!entries) return names;
  static_cast<void>(entries->each([&](const Directory::Entry& entry) {
    names.emplace_back(entry.name);
    return names.size() < kMaxNames;
  }));
  return names;
}

std::uint64_t* field_of(EventSpec& spec, std::string_view name) {
  if (name == "config") return &spec.config;
  if (name == "config1") return &spec.config1;
  if (name == "config2") return &spec.config2;
  return nullptr;
}

// Parses one "0-7" or "21" of a format; false for another text.
bool parse_bits(std::string_view text, unsigned& low, unsigned& high) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last > 63) return false;
  low = static_cast<unsigned>(*first);
  high = static_cast<unsigned>(*last);
  return true;
}

// Writes `value` into the bits that `format` ("config:0-7,32-35", lowest first) names, over their old value.
Result<void> fill_bits(EventSpec& spec, const std::string& term, std::string_view format, std::uint64_t value) {
  const std::size_t colon = format.find(':');
  std::uint64_t* field = field_of(spec, format.substr(0, colon));
  if (field == nullptr || colon == std::string_view::npos)
    return fail(std::errc::not_supported, "the term '{}' goes to '{}', which flightd does not set", term, format);
  std::uint64_t left = value;
  for (std::string_view ranges = format.substr(colon + 1); !ranges.empty();) {
    const std::string_view range = ranges.substr(0, ranges.find(','));
    ranges.remove_prefix(std::min(ranges.size(), range.size() + 1));
    unsigned low = 0;
    unsigned high = 0;
    if (!parse_bits(range, low, high))
      return fail(std::errc::bad_message, "the term '{}' has an invalid format: '{}'", term, format);
    const unsigned width = high - low + 1;
    const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
    *field = (*field & ~(mask << low)) | ((left & mask) << low);
    left = width == 64 ? 0 : left >> width;
  }
  if (left != 0)
    return fail(std::errc::invalid_argument, "{:#x} is too wide for the term '{}', which has the bits {}", value, term,
                format);
  return {};
}

// The names that drivers give to their PMUs, or what they begin with (drivers/perf, arch/*/events, drivers/gpu).
// Another name that sysfs does not have is a mistake: kprobe and uprobe, for example, are on each machine or need no
// hardware.
constexpr std::array<std::string_view, 5> kCpuPmus{"cpu", "cpu_core", "cpu_atom", "cpu_lowpower", "cpum_cf"};
constexpr std::array<std::string_view, 2> kCpuPmuFamilies{"armv", "apple_"};
constexpr std::array<std::string_view, 16> kOtherPmuFamilies{
    "uncore",      "power",  "msr",   "cstate_", "amd_", "ibs_", "intel_", "arm_",
    "smmuv3_pmcg", "cs_etm", "hisi_", "nvidia_", "i915", "xe_",  "dmar",   "cpum_"};

// What an event of this PMU needs; nothing: no driver uses the name.
Needs needs_of(std::string_view pmu) {
  const auto begins = [&](std::string_view family) { return pmu.starts_with(family); };
  if (std::find(kCpuPmus.begin(), kCpuPmus.end(), pmu) != kCpuPmus.end() ||
      std::any_of(kCpuPmuFamilies.begin(), kCpuPmuFamilies.end(), begins))
    return Needs::cpu_pmu;
  return std::any_of(kOtherPmuFamilies.begin(), kOtherPmuFamilies.end(), begins) ? Needs::other_pmu : Needs::nothing;
}

bool has_file(const std::string& path) { return check_kernel_path(path) && ::access(path.c_str(), F_OK) == 0; }

// The same for a PMU of this machine. One of the CPUs is called cpu, or has the list of its CPUs in the file "cpus";
// others have "cpumask" or nothing.
Needs needs_of(std::string_view pmu, std::uint64_t type, const std::string& folder) {
  if (type == PERF_TYPE_SOFTWARE || pmu == "kprobe" || pmu == "uprobe") return Needs::nothing;
  const bool of_cpus = needs_of(pmu) == Needs::cpu_pmu || has_file(folder + "/cpus");
  return of_cpus ? Needs::cpu_pmu : Needs::other_pmu;
}

class Pmu {
 public:
  Pmu(std::string_view name, std::string folder) : name_(name), folder_(std::move(folder)) {}

  Result<void> apply(const Term& term, EventSpec& spec, bool inside_event) const {
    if (auto named = check_name(term); !named) return named;
    if (std::uint64_t* field = field_of(spec, term.name); field != nullptr) {
      const auto value = number_of(term);
      if (!value) return propagate(value.error());
      *field = *value;
      return {};
    }
    if (const auto format = read_small("format/" + term.name); format) {
      const auto value = number_of(term);
      if (!value) return propagate(value.error());
      return fill_bits(spec, term.name, *format, *value);
    }
    if (const auto event = read_small("events/" + term.name); event && !term.value && !inside_event) {
      for (const Term& part : split_terms(*event))
        if (auto applied = apply(part, spec, true); !applied) return applied;
      return {};
    }
    return unknown(term);
  }
  // All that can be checked without the PMU.
  Result<void> check(const Term& term) const {
    if (auto named = check_name(term); !named) return named;
    if (const auto value = number_of(term); !value) return propagate(value.error());
    return {};
  }

 private:
  Result<void> check_name(const Term& term) const {
    if (is_plain_name(term.name)) return {};
    return fail(std::errc::invalid_argument, "PMU {}: '{}' is not a term: use name=value", name_, term.name);
  }

  // A word without a value counts as 1, as in perf.
  Result<std::uint64_t> number_of(const Term& term) const {
    if (!term.value) return 1;
    if (*term.value == "?")
      return fail(std::errc::invalid_argument, "PMU {}: the term '{}' needs a value: write {}=NUMBER", name_, term.name,
                  term.name);
    const auto value = parse_number(*term.value);
    if (!value)
      return fail(std::errc::invalid_argument, "PMU {}: '{}={}' is not a number: use 12 or 0xc", name_, term.name,
                  *term.value);
    return *value;
  }

  std::optional<std::string> read_small(const std::string& name) const {
    auto text = read_kernel_file(folder_ + "/" + name, kMaxSysfsBytes);
    if (!text) return std::nullopt;
    if (!text->empty() && text->back() == '\n') text->pop_back();
    return *text;
  }

  Failure unknown(const Term& term) const {
    std::vector<std::string> all = names_in(folder_ + "/format");
    if (!term.value)
      for (std::string& event : names_in(folder_ + "/events")) all.push_back(std::move(event));
    return fail(std::errc::no_such_file_or_directory, "PMU {} has no {} '{}'{}", name_,
                term.value ? "term" : "event or term", term.name, did_you_mean(nearest_names(term.name, all)));
  }

  std::string name_;
  std::string folder_;
};

}  // namespace

Result<void> parse_pmu(std::string_view pmu, std::string_view terms, const std::string& sysfs, EventSpec& spec) {
  const std::string devices = sysfs + "/bus/event_source/devices";
  if (!is_plain_name(pmu)) return fail(std::errc::invalid_argument, "'{}' is not a PMU name: use pmu/term=value/", pmu);
  const std::string folder = fmt::format("{}/{}", devices, pmu);
  const Pmu source(pmu, folder);
  const auto type_text = read_kernel_line(folder + "/type");
  if (!type_text && type_text.error().errno_value() != ENOENT) return propagate(type_text.error());
  if (!type_text) {
    spec.needs = needs_of(pmu);
    if (spec.needs == Needs::nothing)
      return fail(std::errc::no_such_file_or_directory, "there is no PMU '{}' on this machine{}", pmu,
                  did_you_mean(nearest_names(pmu, names_in(devices))));
    for (const Term& term : split_terms(terms))
      if (auto checked = source.check(term); !checked) return checked;
    spec.missing_pmu = pmu;
    spec.type = std::numeric_limits<std::uint32_t>::max();  // 0 is PERF_TYPE_HARDWARE
    return {};
  }
  const auto type = parse_number(*type_text);
  if (!type || *type > std::numeric_limits<std::uint32_t>::max())
    return fail(std::errc::bad_message, "{}/type does not contain a number", folder);
  if (*type == PERF_TYPE_TRACEPOINT)
    return fail(std::errc::invalid_argument, "write a tracepoint as SYSTEM:EVENT, so that its fields can be decoded");
  spec.type = static_cast<std::uint32_t>(*type);
  spec.needs = needs_of(pmu, *type, folder);
  for (const Term& term : split_terms(terms))
    if (auto applied = source.apply(term, spec, false); !applied) return applied;
  return {};
}

}  // namespace flight
