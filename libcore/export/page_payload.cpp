// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/page_payload.hpp"

#include <cstdint>
#include <string_view>

#include "libcore/export/gzip.hpp"
#include "libcore/export/json_pieces.hpp"
#include "libcore/export/page_columns.hpp"

namespace flight {
namespace {

// Numbers in kKinds of viewer/src/payload.js.
int page_kind(const SnapshotProfile& profile, const StackFrame& frame) {
  switch (frame.kind) {
    case StackFrameKind::root:
      return 0;
    case StackFrameKind::others:
      return 1;
    case StackFrameKind::task:
      return 2;
    case StackFrameKind::code:
      break;
  }
  switch (profile.objects[frame.object].kind) {
    case CodeKind::kernel:
    case CodeKind::generated:
      return 3;
    case CodeKind::file:
      return 4;
    case CodeKind::memory:
      return 5;
    case CodeKind::unknown:
      break;
  }
  return 6;
}

class PayloadWriter {
 public:
  explicit PayloadWriter(GzipWriter& to) : out_(to) {}

  [[nodiscard]] Result<void> write(std::span<const PageSide> sides) {
    out_.raw(R"({"format":2,)");
    out_.column("sides", sides, [this](const PageSide& side) { write_head(side); });
    out_.raw("}\n");
    for (const PageSide& side : sides) {
      write_nodes(side.profile.tree.nodes());
      write_samples(side);
      if (side.sched != nullptr) PageSchedPart(*side.sched, side.sidecar.window.begin_ns).write_columns(out_);
    }
    return out_.finish();
  }

 private:
  void write_head(const PageSide& side) {
    std::string sidecar = to_json_line(side.sidecar);
    sidecar.erase(sidecar.find_last_not_of('\n') + 1);  // the head is one line
    out_.raw(R"({"sidecar":)");
    out_.raw(sidecar);
    out_.raw(",");
    out_.column("notes", side.notes, [this](const std::string& note) { out_.text(note); });
    out_.raw(",");
    write_events(side);
    write_objects(side.profile);
    write_frames(side.profile);
    write_threads(side);
    out_.raw(R"("sched":)");
    if (side.sched != nullptr)
      PageSchedPart(*side.sched, side.sidecar.window.begin_ns).write_head(out_);
    else
      out_.raw("null");
    out_.format(R"(,"nodes":{},"samples":{}}})", side.profile.tree.nodes().size(), side.samples.samples().size());
  }

  // Those that have samples, and the one to show.
  void write_events(const PageSide& side) {
    const auto totals = side.profile.tree.totals();
    std::vector<const ProfileEvent*> events;
    std::size_t shown = 0;
    for (std::size_t i = 0; i < side.profile.events.size(); ++i) {
      const ProfileEvent& event = side.profile.events[i];
      if (i == side.event) shown = events.size();
      if (i == side.event || totals[event.root].all.samples > 0) events.push_back(&event);
    }
    out_.format(R"("event":{},)", shown);
    out_.column("events", events, [this](const ProfileEvent* event) {
      out_.raw(R"({"name":)");
      out_.text(event->name);
      out_.format(R"(,"root":{},"frequency":{},"clock":{}}})", event->root, event->frequency, event->is_clock);
    });
    out_.raw(",");
  }

  void write_objects(const SnapshotProfile& profile) {
    out_.raw(R"("objects":{)");
    // The first is of what is in no object.
    out_.column("name", profile.objects, [&](const CodeObject& object) {
      out_.text(&object == profile.objects.data() ? std::string_view() : object.short_name());
    });
    out_.raw(",");
    out_.column("build", profile.objects, [this](const CodeObject& object) {
      out_.raw("\"");
      for (std::size_t i = 0; i < object.build_id.size; ++i) out_.format("{:02x}", object.build_id.bytes.at(i));
      out_.raw("\"");
    });
    out_.raw("},");
  }

  void write_frames(const SnapshotProfile& profile) {
    out_.raw(R"("frames":{)");
    std::uint32_t number = 0;
    out_.column("name", profile.frames, [&](const StackFrame&) { out_.text(profile.text_of(number++)); });
    out_.raw(",");
    out_.column("object", profile.frames, [this](const StackFrame& frame) {
      out_.format("{}", frame.kind == StackFrameKind::code ? frame.object : 0U);
    });
    out_.raw(",");
    out_.column("kind", profile.frames, [&](const StackFrame& frame) { out_.format("{}", page_kind(profile, frame)); });
    out_.raw(",");
    out_.column("named", profile.frames, [this](const StackFrame& frame) {
      out_.raw(frame.kind == StackFrameKind::code && frame.name == 0 ? "0" : "1");
    });
    out_.raw("},");
  }

  void write_threads(const PageSide& side) {
    using Thread = PageSamples::Thread;
    const std::vector<Thread>& threads = side.samples.threads();
    const Texts& texts = side.profile.texts;
    out_.raw(R"("threads":{)");
    out_.column("known", threads, [this](const Thread& thread) { out_.format("{}", thread.known); });
    out_.raw(",");
    out_.column("pid", threads, [this](const Thread& thread) { out_.format("{}", thread.pid); });
    out_.raw(",");
    out_.column("tid", threads, [this](const Thread& thread) { out_.format("{}", thread.tid); });
    out_.raw(",");
    out_.column("process", threads,
                [&](const Thread& thread) { out_.text(thread.process == 0 ? std::string() : texts[thread.process]); });
    out_.raw(",");
    out_.column("unit", threads,
                [&](const Thread& thread) { out_.text(thread.unit == 0 ? std::string() : texts[thread.unit]); });
    out_.raw("},");
  }

  void write_nodes(const std::vector<StackNode>& nodes) {
    for (std::size_t i = 1; i < nodes.size(); ++i) varint(i - nodes[i].parent);
    for (std::size_t i = 1; i < nodes.size(); ++i) varint(nodes[i].frame);
  }

  void write_samples(const PageSide& side) {
    const std::vector<PageSamples::Sample>& samples = side.samples.samples();
    EventTime before_ns = side.sidecar.window.begin_ns;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const EventTime step_ns = samples[i].time_ns - before_ns;
      varint(i == 0 ? zigzag(static_cast<std::int64_t>(step_ns)) : step_ns);
      before_ns = samples[i].time_ns;
    }
    for (const auto& sample : samples) varint(sample.node);
    for (const auto& sample : samples) varint(sample.thread);
    for (const auto& sample : samples) varint(sample.cpu);
    for (const auto& sample : samples) varint(sample.weight);
  }

  // 0, -1, 1, -2 … become 0, 1, 2, 3 …
  [[nodiscard]] static std::uint64_t zigzag(std::int64_t number) {
    return (static_cast<std::uint64_t>(number) << 1U) ^ static_cast<std::uint64_t>(number >> 63U);
  }
  void varint(std::uint64_t number) { write_varint(out_, number); }

  JsonPieces out_;
};

}  // namespace

Result<void> write_page_payload(std::span<const PageSide> sides, const WritePage& write) {
  auto to = GzipWriter::create(write);
  if (!to) return propagate(to.error());
  return PayloadWriter(*to).write(sides);
}

}  // namespace flight
