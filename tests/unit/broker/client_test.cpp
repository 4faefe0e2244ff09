// SPDX-License-Identifier: Apache-2.0
// flightd's end of the protocol against a wrong broker, whose replies are written by hand here.
// tests/unit/daemon/broker tests it against the real flightd-broker.
#include "libcore/broker/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <set>

#include "libcore/base/files.hpp"
#include "tests/unit/base/failing_listings.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class WrongBroker : public testing::Test {
 protected:
  WrongBroker() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    broker_.reset(ends[0]);
    client_.emplace(UniqueFd(ends[1]));
  }
  // The replies are queued before the request is sent: the socket has enough space for them.
  void say(Request request, const std::vector<int>& fds, std::uint32_t part = 0, std::uint32_t parts = 1,
           std::uint32_t first_ring = 0, std::string_view text = {}) {
    ReplyHeader header;
    header.request = static_cast<std::uint8_t>(request);
    header.part = part;
    header.parts = parts;
    header.first_ring = first_ring;
    header.generation = 1;
    ASSERT_TRUE(send_message(broker_.get(), header, text, fds));
  }
  static UniqueFd document(std::string_view text) {
    return sealed_memfd("test", std::as_bytes(std::span(text.data(), text.size()))).value();
  }
  // A manifest of `rings` rings.
  static std::string manifest(int rings) {
    Manifest out;
    out.events.resize(1);
    out.events[0].attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
    out.events[0].attr.sample_id_all = 1;
    for (int cpu = 0; cpu < rings; ++cpu) out.rings.push_back({RingKind::sideband, "", cpu, 1U << 16U, 1, true});
    return encode(out);
  }
  UniqueFd broker_;
  std::optional<BrokerClient> client_;
};

TEST_F(WrongBroker, PartsMakeOneAttachment) {
  const UniqueFd text = document(manifest(3));
  say(Request::attach, {text.get()}, 0, 3);
  say(Request::attach, {text.get(), text.get()}, 1, 3, 0);
  say(Request::changed, {});
  say(Request::attach, {text.get()}, 2, 3, 2);
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << attachment.error().what;
  EXPECT_EQ(attachment->owners.size(), 3U);
  EXPECT_EQ(attachment->manifest.rings.size(), 3U);
  EXPECT_TRUE(client_->take_changed().value());
  EXPECT_FALSE(client_->take_changed().value());
}

// The reply of a machine with 512 CPUs, a channel and the sideband.
TEST_F(WrongBroker, AThousandRingsCrossInMessagesOf250) {
  constexpr int kRings = 1024;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit many{.rlim_cur = std::max<rlim_t>(old.rlim_cur, 4096), .rlim_max = std::max<rlim_t>(old.rlim_max, 4096)};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &many), 0);
  const UniqueFd text = document(manifest(kRings));
  const std::uint32_t parts = 1 + (kRings + kMaxFdsPerMessage - 1) / kMaxFdsPerMessage;
  say(Request::attach, {text.get()}, 0, parts);
  for (std::uint32_t part = 1, first = 0; first < kRings; ++part, first += kMaxFdsPerMessage)
    say(Request::attach, std::vector<int>(std::min<std::size_t>(kMaxFdsPerMessage, kRings - first), text.get()), part,
        parts, first);
  {
    const auto attachment = client_->attach();
    ASSERT_TRUE(attachment) << attachment.error().what;
    ASSERT_EQ(attachment->owners.size(), static_cast<std::size_t>(kRings));
    ASSERT_EQ(attachment->manifest.rings.size(), static_cast<std::size_t>(kRings));
    EXPECT_EQ(attachment->manifest.rings.back().cpu, kRings - 1);
    std::set<int> different;
    for (const UniqueFd& owner : attachment->owners) different.insert(owner.get());
    EXPECT_EQ(different.size(), static_cast<std::size_t>(kRings));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

// A reply that announces one thing and sends another is refused. Only this connection is closed.
TEST_F(WrongBroker, KallsymsHasToComeAsAnnounced) {
  const auto kernel = [](Kallsyms kallsyms) {
    const auto bytes = encode(KernelNames{.looked_ns = 1, .digest = "0123456789abcdef", .kallsyms = kallsyms});
    return sealed_memfd("test", bytes).value();
  };
  const UniqueFd symbols = document("ffffffff81000000 T _text\n");
  const UniqueFd sent = kernel(Kallsyms::sent);
  const UniqueFd unchanged = kernel(Kallsyms::unchanged);
  say(Request::kernel, {sent.get(), symbols.get()});
  const auto text = client_->kernel();
  ASSERT_TRUE(text);
  const std::string_view got(reinterpret_cast<const char*>(text->kallsyms.bytes().data()),
                             text->kallsyms.bytes().size());
  EXPECT_EQ(got, "ffffffff81000000 T _text\n");
  say(Request::kernel, {unchanged.get()});
  EXPECT_TRUE(client_->kernel()->kallsyms.bytes().empty());
  say(Request::kernel, {sent.get()});
  EXPECT_EQ(client_->kernel().error().errno_value(), EBADMSG);
  say(Request::kernel, {unchanged.get(), symbols.get()});
  EXPECT_EQ(client_->kernel().error().errno_value(), EBADMSG);
  say(Request::kernel, {symbols.get()});
  EXPECT_EQ(client_->kernel().error().errno_value(), EBADMSG) << "no maps";
  say(Request::kernel, {sent.get(), symbols.get(), symbols.get()});
  EXPECT_EQ(client_->kernel().error().errno_value(), EBADMSG);
  EXPECT_EQ(client_->counts().error().errno_value(), ECONNRESET) << "three descriptors end the connection";
}

TEST_F(WrongBroker, TooFewRingsAreAnError) {
  const UniqueFd text = document(manifest(3));
  say(Request::attach, {text.get()}, 0, 2);
  say(Request::attach, {text.get()}, 1, 2, 0);
  const auto attachment = client_->attach();
  ASSERT_FALSE(attachment);
  EXPECT_THAT(attachment.error().what, HasSubstr("3 rings, 1 came"));
}

TEST_F(WrongBroker, PartsOutOfOrderEndTheConnection) {
  const UniqueFd text = document(manifest(2));
  say(Request::attach, {text.get()}, 0, 3);
  say(Request::attach, {text.get()}, 2, 3, 1);
  EXPECT_FALSE(client_->attach());
  EXPECT_EQ(client_->counts().error().errno_value(), ECONNRESET);
}

TEST_F(WrongBroker, AMemfdThatIsNotSealedIsRefused) {
  const UniqueFd open_memfd(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(write_all(open_memfd.get(), encode(Counts{})));
  say(Request::counts, {open_memfd.get()});
  const auto counts = client_->counts();
  ASSERT_FALSE(counts);
  EXPECT_THAT(counts.error().what, HasSubstr("not sealed"));
}

TEST_F(WrongBroker, AnAnswerToAnotherQuestionEndsTheConnection) {
  const UniqueFd text = document(encode(Counts{}));
  say(Request::processes, {text.get()});
  EXPECT_EQ(client_->counts().error().errno_value(), EBADMSG);
  EXPECT_EQ(client_->counts().error().errno_value(), ECONNRESET);
  EXPECT_EQ(client_->take_changed().error().errno_value(), EBADMSG) << "the reason, not what followed from it";
}

TEST_F(WrongBroker, AnswersWithOtherDescriptorsAreRefused) {
  const UniqueFd text = document("x");
  say(Request::reload, {text.get()});
  EXPECT_EQ(client_->reload().error().errno_value(), EBADMSG);
}

TEST_F(WrongBroker, AFileOutsideTheStoreIsRefused) {
  for (const char* name : {"", "..", ".", "../passwd", "/etc/passwd", "a/b"}) {
    const UniqueFd text = document("x");
    say(Request::file, {text.get()}, 0, 1, 0, name);
    EXPECT_FALSE(client_->file()) << name;
  }
  std::array<int, 2> pipe_ends{-1, -1};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  say(Request::file, {pipe_ends[1]}, 0, 1, 0, ".flightd-1.partial");
  EXPECT_FALSE(client_->file());
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

// The broker's disk may be slow. The other requests continue.
// By seccomp: in an earlier version the broker's file was called wrong.
TEST_F(WrongBroker, AFileIsTakenAlsoWithoutStatx) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  for (const int refusal : {EPERM, EIO}) {
    say(Request::file, {file.get()}, 0, 1, 0, "new.partial");
    const auto got = test::with_failing_calls(
        SYS_statx, [this] { return client_->file(); }, static_cast<unsigned>(refusal));
    EXPECT_EQ(got.has_value(), refusal == EPERM);
    if (!got) {
      EXPECT_EQ(got.error().errno_value(), EIO);
      EXPECT_THAT(got.error().what, HasSubstr("statx"));
    }
  }
}

TEST_F(WrongBroker, AFileMayComeLate) {
  const UniqueFd text = document(encode(Counts{}));
  ASSERT_TRUE(client_->ask_for_file());
  EXPECT_EQ(client_->ask_for_file().error().errno_value(), EBUSY);
  say(Request::counts, {text.get()});
  EXPECT_TRUE(client_->counts());
  EXPECT_FALSE(client_->take_changed().value());
  EXPECT_FALSE(client_->take_file());
  say(Request::file, {text.get()}, 0, 1, 0, ".flightd-1.partial");
  EXPECT_FALSE(client_->take_changed().value());
  auto file = client_->take_file();
  ASSERT_TRUE(file && *file);
  EXPECT_EQ((*file)->name, ".flightd-1.partial");
  EXPECT_FALSE(client_->take_file());

  ASSERT_TRUE(client_->ask_for_file());
  say(Request::file, {text.get()}, 0, 1, 0, ".flightd-2.partial");
  say(Request::counts, {text.get()});
  EXPECT_TRUE(client_->counts()) << "a file in between is kept";
  file = client_->take_file();
  ASSERT_TRUE(file && *file);
  EXPECT_EQ((*file)->name, ".flightd-2.partial");
  say(Request::file, {text.get()}, 0, 1, 0, ".flightd-3.partial");
  EXPECT_EQ(client_->take_changed().error().errno_value(), EBADMSG) << "nobody asked for this one";
}

TEST_F(WrongBroker, ItsErrorIsPassedOn) {
  ReplyHeader header;
  header.request = 'r';
  header.failed = 1;
  header.error_number = EINVAL;
  ASSERT_TRUE(send_message(broker_.get(), header, "flightd.json:3: channels: no such event", {}));
  const auto reloaded = client_->reload();
  ASSERT_FALSE(reloaded);
  EXPECT_EQ(reloaded.error().errno_value(), EINVAL);
  EXPECT_THAT(reloaded.error().what, HasSubstr("flightd.json:3: channels: no such event"));
}

TEST_F(WrongBroker, ItsEndIsNoticed) {
  EXPECT_FALSE(client_->take_changed().value());
  broker_.reset();
  EXPECT_EQ(client_->take_changed().error().errno_value(), ECONNRESET);
  EXPECT_EQ(client_->attach().error().errno_value(), ECONNRESET);
}

TEST_F(WrongBroker, AnUnexpectedReplyIsRefused) {
  say(Request::reload, {});
  EXPECT_EQ(client_->take_changed().error().errno_value(), EBADMSG);
}

TEST(BrokerClient, AMissingBrokerIsReported) {
  const auto client = BrokerClient::connect("/nonexistent/broker");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().errno_value(), ENOENT);
  EXPECT_THAT(client.error().what, HasSubstr("is flightd-broker running?"));
  EXPECT_FALSE(BrokerClient::connect(std::string(200, 'x')));
}

}  // namespace
}  // namespace flight
