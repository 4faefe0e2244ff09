// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/firefox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "libcore/export/firefox_marks.hpp"
#include "libcore/export/firefox_tables.hpp"
#include "libcore/export/json_pieces.hpp"

namespace flight {
namespace {

constexpr std::size_t kShownThreads = 15;  // at first

// FirefoxTables has their numbers. The viewer needs a grey one, for what has none.
constexpr std::string_view kCategories = R"([{"name":"Other","color":"grey","subcategories":["Other"]},)"
                                         R"({"name":"User","color":"yellow","subcategories":["Other"]},)"
                                         R"({"name":"Kernel","color":"orange","subcategories":["Other"]},)"
                                         R"({"name":"JIT","color":"green","subcategories":["Other"]}])";
constexpr std::string_view kMarkerSchema =
    R"([{"name":"flightd","tooltipLabel":"{marker.name}","tableLabel":"{marker.data.text}",)"
    R"("chartLabel":"{marker.data.text}","display":["marker-chart","marker-table","timeline-overview"],)"
    R"("fields":[{"key":"text","label":"Details","format":"string"}]}])";

class FirefoxWriter {
 public:
  FirefoxWriter(const SnapshotProfile& profile, std::size_t event, const TimedSamples& samples, const Sidecar& sidecar,
                const SchedProfile* sched, GzipWriter& to)
      : profile_(profile),
        event_(profile.events[event]),
        samples_(samples),
        sidecar_(sidecar),
        begin_ns_(sidecar.window.begin_ns),
        tables_(profile, event_.root),
        markers_(firefox_markers(sidecar)),
        out_(to) {
    sched_.of_threads.resize(samples.threads().size());
    if (sched == nullptr) return;
    sched_ = firefox_sched_markers(*sched, samples);
    markers_.insert(markers_.end(), sched_.others.begin(), sched_.others.end());
  }

  [[nodiscard]] Result<void> write(const std::vector<std::string>& notes) {
    name_processes();
    name_markers(markers_);
    for (const auto& markers : sched_.of_threads) name_markers(markers);
    name_markers(sched_.cpus);
    out_.raw(R"({"meta":{)");
    write_meta(notes);
    out_.raw(R"(},"libs":[)");
    tables_.write_libs(out_);
    out_.raw(R"(],"counters":[)");
    write_counters();
    out_.raw(R"(],"shared":{)");
    tables_.write_shared(out_, marker_names_);
    out_.raw(R"(},"threads":[)");
    write_own_thread();
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < samples_.threads().size(); ++i) at = write_thread(i, at);
    if (!sched_.cpus.empty()) write_markers_thread("CPUs", "flightd-cpus", sched_.cpus);
    out_.raw("]}\n");
    return out_.finish();
  }

 private:
  [[nodiscard]] double ms_of(EventTime time_ns) const {
    const auto since = static_cast<std::int64_t>(time_ns - begin_ns_);  // also of a time before it
    return static_cast<double>(since) / 1e6;
  }
  void add_time(EventTime time_ns) { out_.format("{:.3f}", ms_of(time_ns)); }
  // They are few; each is in the table of texts once.
  void name_markers(const std::vector<FirefoxMarker>& markers) {
    for (const FirefoxMarker& marker : markers)
      if (marker_name_numbers_.try_emplace(marker.name, tables_.own_texts() + marker_names_.size()).second)
        marker_names_.push_back(marker.name);
  }

  // A pid that was used again has a text of its own: the viewer takes threads with the same one for one process.
  void name_processes() {
    std::map<std::uint32_t, std::uint32_t> used;  // by pid: how many processes
    for (const TimedSamples::Thread& thread : samples_.threads()) {
      const auto [known, added] = pids_.try_emplace({thread.pid, thread.process});
      if (!added) continue;
      const std::uint32_t before = used[thread.pid]++;
      known->second = before == 0 ? std::to_string(thread.pid) : fmt::format("{}.{}", thread.pid, before + 1);
    }
  }

  void write_meta(const std::vector<std::string>& notes) {
    const WallTime begin = clock_of(sidecar_).wall_at(begin_ns_);
    const double interval = event_.frequency > 0 ? 1000.0 / static_cast<double>(event_.frequency) : 1;
    out_.format(R"("interval":{:.6f},"startTime":{:.3f},"profilingStartTime":0,"profilingEndTime":{:.3f},)", interval,
                static_cast<double>(begin.count()) / 1e6, std::max(ms_of(sidecar_.window.end_ns), 0.001));
    out_.raw(R"("processType":0,"product":"flightd","stackwalk":1,"version":33,"preprocessedProfileVersion":60,)");
    out_.raw(R"("symbolicated":true,"usesOnlyOneStackType":true,"sourceCodeIsNotOnSearchfox":true,)");
    out_.raw(R"("keepProfileThreadOrder":true,"importedFrom":"flightd","oscpu":)");
    out_.text(sidecar_.kernel);
    out_.raw(R"(,"device":)");
    out_.text(sidecar_.host);
    if (event_.is_clock) out_.raw(R"(,"sampleUnits":{"time":"ms","eventDelay":"ms","threadCPUDelta":"ns"})");
    out_.format(R"(,"categories":{},"markerSchema":{},)", kCategories, kMarkerSchema);
    const std::size_t shown = std::min(samples_.threads().size(), kShownThreads) + 1;
    std::vector<std::size_t> threads;
    for (std::size_t i = 0; i < shown; ++i) threads.push_back(i);
    if (!sched_.cpus.empty()) threads.push_back(samples_.threads().size() + 1);
    out_.column("initialVisibleThreads", threads, [this](std::size_t thread) { out_.format("{}", thread); });
    out_.format(R"(,"initialSelectedThreads":[{}],)", shown > 1 ? 1 : 0);
    write_extra(notes);
  }

  void write_extra(const std::vector<std::string>& notes) {
    std::vector<std::pair<std::string, std::string>> entries{{"Snapshot", sidecar_.id},
                                                             {"Trigger", sidecar_.trigger},
                                                             {"Reason", sidecar_.reason},
                                                             {"Event", event_.name},
                                                             {"Lost records", std::to_string(profile_.counts.lost)}};
    for (const std::string& note : notes) entries.emplace_back("Note", note);
    out_.raw(R"("extra":[{"label":"flightd",)");
    out_.column("entries", entries, [this](const auto& entry) {
      out_.raw(R"({"label":)");
      out_.text(entry.first);
      out_.raw(R"(,"format":"string","value":)");
      out_.text(entry.second);
      out_.raw("}");
    });
    out_.raw("}]");
  }

  void write_counters() {
    bool first = true;
    for (const FirefoxCounter& counter : firefox_counters(sidecar_)) {
      out_.raw(first ? R"({"name":)" : R"(,{"name":)");
      first = false;
      out_.text(counter.name);
      out_.raw(R"(,"category":"flightd","description":"a metric of flightd","pid":"flightd","mainThreadIndex":0,)");
      out_.raw(R"("samples":{)");
      out_.column("time", counter.values, [this](const auto& value) { add_time(value.first); });
      out_.raw(",");
      out_.column("count", counter.values, [this](const auto& value) { out_.format("{:.6g}", value.second); });
      out_.format(R"(,"length":{}}}}})", counter.values.size());
    }
  }

  void begin_thread(std::string_view name, std::string_view process, std::string_view pid, std::string_view tid,
                    bool is_main) {
    out_.raw(R"({"processType":"default","processStartupTime":0,"processShutdownTime":null,"registerTime":0,)");
    out_.raw(R"("unregisterTime":null,"pausedRanges":[],"name":)");
    out_.text(name);
    out_.raw(R"(,"processName":)");
    out_.text(process);
    out_.format(R"(,"isMainThread":{},"pid":"{}","tid":"{}",)", is_main, pid, tid);
  }

  void write_own_thread() { write_markers_thread("flightd", "flightd", markers_); }
  void write_markers_thread(std::string_view name, std::string_view tid, const std::vector<FirefoxMarker>& markers) {
    if (name != "flightd") out_.raw(",");
    begin_thread(name, "flightd", "flightd", tid, name == "flightd");
    out_.raw(R"("showMarkersInTimeline":true,"samples":{"stack":[],"time":[],"weight":null,"weightType":"samples",)");
    out_.raw(R"("length":0},)");
    write_markers(markers);
    out_.raw("}");
  }

  void write_markers(const std::vector<FirefoxMarker>& markers) {
    out_.raw(R"("markers":{)");
    out_.column("data", markers, [this](const FirefoxMarker& marker) {
      out_.raw(R"({"type":"flightd","text":)");
      out_.text(marker.text);
      out_.raw("}");
    });
    out_.raw(",");
    out_.column("name", markers,
                [this](const FirefoxMarker& marker) { out_.format("{}", marker_name_numbers_.at(marker.name)); });
    out_.raw(",");
    out_.column("startTime", markers, [this](const FirefoxMarker& marker) { add_time(marker.begin_ns); });
    out_.raw(",");
    out_.column("endTime", markers, [this](const FirefoxMarker& marker) {
      if (marker.end_ns)
        add_time(*marker.end_ns);
      else
        out_.raw("null");
    });
    out_.raw(",");
    // A moment, or an interval with both of its ends.
    out_.column("phase", markers, [this](const FirefoxMarker& marker) { out_.raw(marker.end_ns ? "1" : "0"); });
    out_.raw(",");
    out_.column_of("category", markers.size(), "0");
    out_.format(R"(,"length":{}}})", markers.size());
  }

  [[nodiscard]] std::string name_of(const TimedSamples::Thread& thread) const {
    if (!thread.known) return "[other threads]";
    const std::vector<StackNode>& nodes = profile_.tree.nodes();
    for (std::uint32_t at = thread.node; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent)
      if (profile_.frames[nodes[at].frame].kind == StackFrameKind::task) return profile_.text_of(nodes[at].frame);
    return "[unknown]";
  }

  // Its samples begin at `at`; returns where those of the next one do.
  [[nodiscard]] std::size_t write_thread(std::uint32_t number, std::size_t at) {
    const TimedSamples::Thread& thread = samples_.threads()[number];
    std::string process = thread.known ? profile_.texts[thread.process] : "[other threads]";
    const std::string_view unit = profile_.texts[thread.unit];
    if (!unit.empty() && unit != kUnknownUnit) process += fmt::format(" ({})", unit);
    const std::string pid = thread.known ? pids_.at({thread.pid, thread.process}) : "others";
    out_.raw(",");
    begin_thread(name_of(thread), process, pid, thread.known ? std::to_string(thread.tid) : "others",
                 thread.pid == thread.tid);
    std::size_t end = at;
    while (end < samples_.samples().size() && samples_.samples()[end].thread == number) ++end;
    write_samples(std::span(samples_.samples()).subspan(at, end - at));
    write_markers(sched_.of_threads[number]);
    out_.raw("}");
    return end;
  }

  void write_samples(std::span<const TimedSamples::Sample> all) {
    std::vector<const TimedSamples::Sample*> some;  // of the event
    for (const TimedSamples::Sample& sample : all)
      if (tables_.stack_at(sample.node) != FirefoxTables::kNone) some.push_back(&sample);
    out_.raw(R"("samples":{)");
    out_.column("stack", some, [this](const auto* sample) { out_.format("{}", tables_.stack_at(sample->node)); });
    out_.raw(",");
    out_.column("time", some, [this](const auto* sample) { add_time(sample->time_ns); });
    if (event_.is_clock) {
      // The time that it stands for.
      out_.raw(R"(,"weightType":"tracing-ms",)");
      out_.column("weight", some,
                  [this](const auto* sample) { out_.format("{:.3f}", static_cast<double>(sample->weight) / 1e6); });
      out_.raw(",");
      out_.column("threadCPUDelta", some, [this](const auto* sample) { out_.format("{}", sample->weight); });
    } else {
      out_.raw(R"(,"weightType":"samples","weight":null)");
    }
    out_.format(R"(,"length":{}}},)", some.size());
  }

  const SnapshotProfile& profile_;
  const ProfileEvent& event_;
  const TimedSamples& samples_;
  const Sidecar& sidecar_;
  EventTime begin_ns_;
  FirefoxTables tables_;
  std::vector<FirefoxMarker> markers_;
  FirefoxSchedMarkers sched_;
  JsonPieces out_;
  std::vector<std::string> marker_names_;
  std::map<std::string, std::size_t> marker_name_numbers_;               // by the name: in the table of texts
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> pids_;  // by pid and process
};

}  // namespace

Result<void> write_firefox(const SnapshotProfile& profile, std::size_t event, const TimedSamples& samples,
                           const Sidecar& sidecar, const std::vector<std::string>& notes,
                           const std::function<Result<void>(std::span<const std::byte> bytes)>& write,
                           const SchedProfile* sched) {
  auto to = GzipWriter::create(write);
  if (!to) return propagate(to.error());
  return FirefoxWriter(profile, event, samples, sidecar, sched, *to).write(notes);
}

}  // namespace flight
