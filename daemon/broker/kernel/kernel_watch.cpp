// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/kernel/kernel_watch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "daemon/broker/kernel/module_history.hpp"
#include "libcore/base/bytes.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/sysinfo/generated_code.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/modules.hpp"

namespace flight::broker {
namespace {

// After a uevent, a module may appear in /proc/modules later, and is in state Loading for a while.
constexpr std::array kSettle{std::chrono::milliseconds(0), std::chrono::milliseconds(100),
                             std::chrono::milliseconds(1000)};
constexpr std::size_t kUsualKallsymsBytes = 8U << 20U;  // 5 MB without modules (Linux 6.18), 10 MB with many
constexpr int kTries = 3;                               // in case modules are loaded or unloaded while kallsyms is read

UniqueFd another(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

// All of it, or the beginning if the kernel hides the addresses: then the other megabytes are of no use.
Result<std::string> read_kallsyms(const std::string& path) {
  {
    const auto file = open_kernel_file(path);
    if (!file) return propagate(file.error());
    std::string head(kHiddenKallsymsBytes, '\0');
    std::size_t done = 0;
    while (done < head.size()) {
      const ssize_t got = ::read(file->get(), head.data() + done, head.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return sys_error(errno, "read {}", path);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    head.resize(done);
    if (!shows_address(head)) return head;
  }
  return read_file(path, kMaxKallsymsBytes, kUsualKallsymsBytes);
}

}  // namespace

struct KernelWatch::Order {
  std::uint64_t number = 0;
  std::optional<std::string> has;  // the digest of the set that the client has; nullopt: kallsyms is not requested
};

struct KernelWatch::Shared {
  std::string root;
  std::function<void()> wake;

  // Used by the reading thread only.
  ModuleHistory history;
  std::optional<KernelImage> image;
  std::string image_fault;
  std::string paths_fault;  // since a module was loaded last
  std::string sent_digest;  // of the last kallsyms
  int copies = 0;           // memfds made of it
  UniqueFd last_copy;       // after kMaxCopies

  std::mutex mutex;  // guards the following members
  std::condition_variable changed;
  std::uint64_t done = 0;                // the last finished look
  std::optional<Result<Answer>> answer;  // result of a look with a request
};

KernelWatch::KernelWatch(BlockingThreads thread, std::function<void()> wake, std::string root)
    : shared_(std::make_shared<Shared>()), thread_(std::move(thread)) {
  shared_->root = std::move(root);
  shared_->wake = std::move(wake);
  look();
}

// Reading thread.
void KernelWatch::read(Shared& shared, const Order& order) {
  // Needed only if a module was loaded; it reflects the files installed now.
  std::optional<std::map<std::string, std::string>> paths;
  const auto name_of = [&](const std::string& module) {
    if (!paths) {
      auto found = module_paths(shared.root);
      shared.paths_fault = found ? std::string() : "modules have no paths: " + found.error().what;
      paths = found ? std::move(*found) : std::map<std::string, std::string>();
    }
    const auto path = paths->find(module);
    return path == paths->end() ? fmt::format("[{}]", module) : path->second;
  };
  const auto look = [&]() -> Result<std::string> {
    const EventTime begun_ns = monotonic_now();
    const auto modules = loaded_modules(shared.root);
    if (!modules) return propagate(modules.error());
    const EventTime done_ns = monotonic_now();
    shared.history.note(*modules, begun_ns, done_ns, name_of);
    return digest_of(*modules);
  };
  const auto finish = [&](std::optional<Result<Answer>> answer) {
    {
      const std::lock_guard lock(shared.mutex);
      shared.done = order.number;
      if (answer) shared.answer = std::move(answer);
    }
    shared.changed.notify_all();
    shared.wake();
  };

  std::optional<SpareDescriptors::Use> use;
  if (order.has) use.emplace();
  auto digest = look();
  if (!order.has) return finish(std::nullopt);
  if (!digest) return finish(Result<Answer>(propagate(digest.error())));
  Answer out;
  out.names.kallsyms = Kallsyms::unchanged;
  std::string fault;
  if (*digest != *order.has) {
    out.names.kallsyms = Kallsyms::none;
    if (shared.sent_digest != *digest) shared.last_copy = UniqueFd();
    if (shared.last_copy) {
      out.kallsyms = another(shared.last_copy);
      if (out.kallsyms)
        out.names.kallsyms = Kallsyms::sent;
      else
        fault = fmt::format("duplicate a descriptor: {}", std::generic_category().message(errno));
    }
    // kallsyms and the maps must describe the same set of modules.
    for (int i = 0; i < kTries && !shared.last_copy; ++i) {
      auto text = read_kallsyms(shared.root + "/proc/kallsyms");
      const auto image = text ? kernel_image(*text, shared.root) : Result<KernelImage>(propagate(text.error()));
      shared.image_fault = image ? std::string() : image.error().what;
      if (!image) break;
      shared.image = *image;
      const std::string before = std::move(*digest);
      digest = look();
      if (!digest) return finish(Result<Answer>(propagate(digest.error())));
      fault = "modules are loaded and unloaded continuously: addresses of modules have no names";
      if (*digest != before) continue;
      fault.clear();
      // The digest does not cover it: otherwise each BPF program that is loaded would store another megabyte.
      drop_generated_code(*text);
      auto memfd = sealed_memfd("flightd-kallsyms", bytes_of(*text));
      if (!memfd) {
        fault = memfd.error().what;
        break;
      }
      out.kallsyms = std::move(*memfd);
      out.names.kallsyms = Kallsyms::sent;
      if (std::exchange(shared.sent_digest, *digest) != *digest) shared.copies = 0;
      if (++shared.copies >= kMaxCopies) shared.last_copy = another(out.kallsyms);
      break;
    }
  }
  const Kallsyms kallsyms = out.names.kallsyms;
  out.names = shared.history.names();
  out.names.kallsyms = kallsyms;
  out.names.digest = *digest;
  out.names.warning = !fault.empty() ? fault : !shared.image_fault.empty() ? shared.image_fault : shared.paths_fault;
  if (!out.names.warning.empty()) out.names.warning = "kernel symbols: " + out.names.warning;
  if (shared.image)
    out.names.maps.insert(out.names.maps.begin(), {.name = shared.image->name,
                                                   .address = shared.image->address,
                                                   .bytes = shared.image->bytes,
                                                   .page_offset = shared.image->address,
                                                   .build_id = shared.image->build_id});
  finish(std::move(out));
}

void KernelWatch::suspect() {
  due_ = std::min(due_, Clock::now());
  settling_ = static_cast<int>(kSettle.size());
}

void KernelWatch::want(std::string has) {
  const std::lock_guard lock(shared_->mutex);
  shared_->answer.reset();
  wanted_ = std::move(has);
  wanted_look_ = 0;
  wanted_since_ = Clock::now();
}

void KernelWatch::forget() {
  const std::lock_guard lock(shared_->mutex);
  shared_->answer.reset();
  wanted_.reset();
}

void KernelWatch::begin(const Order& order) {
  const auto now = Clock::now();
  due_ = now + kRoutine;
  if (!thread_.post([shared = shared_, order] { read(*shared, order); })) return;
  looks_ = order.number;
  begun_ = now;
  if (settling_ > 0) {
    --settling_;
    if (settling_ > 0) due_ = now + kSettle.at(kSettle.size() - static_cast<std::size_t>(settling_));
  }
}

void KernelWatch::look() {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->done != looks_) return;    // a look is running
    if (!wanted_) shared_->answer.reset();  // the reply came too late: do not keep 10 MB
  }
  const auto now = Clock::now();
  if (wanted_ && wanted_look_ == 0) {
    wanted_look_ = looks_ + 1;
    begin({.number = looks_ + 1, .has = wanted_});
    if (looks_ != wanted_look_) wanted_look_ = 0;
    return;
  }
  if (now >= due_ && (looks_ == 0 || now - begun_ >= kAtMostEvery)) begin({.number = looks_ + 1, .has = {}});
}

std::chrono::milliseconds KernelWatch::look_every() const {
  if (wanted_) return std::chrono::milliseconds(20);
  const auto next = std::max(due_, begun_ + kAtMostEvery) - Clock::now();
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(next), std::chrono::milliseconds(1), kRoutine);
}

std::optional<Result<KernelWatch::Answer>> KernelWatch::take() {
  if (!wanted_) return std::nullopt;
  std::optional<Result<Answer>> out;
  {
    const std::lock_guard lock(shared_->mutex);
    if (wanted_look_ != 0 && shared_->done >= wanted_look_) out = std::exchange(shared_->answer, std::nullopt);
  }
  if (!out && Clock::now() - wanted_since_ < kWait && Clock::now() - begun_ < kWait) return std::nullopt;
  if (!out) out.emplace(fail(std::errc::timed_out, "the kernel's modules could not be read in time: a disk hangs"));
  wanted_.reset();
  return out;
}

void KernelWatch::wait_for_first(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, limit, [&] { return shared_->done != 0; });
}

}  // namespace flight::broker
