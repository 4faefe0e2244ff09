// SPDX-License-Identifier: Apache-2.0
// Both ends of the connection to the unwinder, and what each makes of the other's nonsense, silence and end.
#include "libcore/unwind/unwind_service.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/unwind/unwind_client.hpp"
#include "tests/unit/unwind/test_elf.hpp"
#include "tests/unit/vm_flags.hpp"

namespace flight::test {
namespace {

using namespace std::chrono_literals;
using ServedWords = std::vector<std::uint64_t>;

constexpr std::uint64_t kServedCode = 0x7f0000000000 + kCodeAddress, kServedStack = 0x7ffe00000000;
constexpr std::uint64_t kServedPc = kServedCode + 5, kServedCaller = kServedCode + 0x103;
constexpr std::size_t kServedBytes = 16U << 10U;  // any user may lock so much

class UnwindServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-unwind-service-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto pair = socket_pair(SOCK_SEQPACKET);
    ASSERT_TRUE(pair) << pair.error().what;
    ours_ = std::move(pair->own);
    theirs_ = std::move(pair->other);
  }
  void TearDown() override {
    ours_.reset();
    client_.reset();
    if (thread_.joinable()) thread_.join();
    std::filesystem::remove_all(folder_);
  }

  // flightd's end; `ours_` is used up.
  void connect() {
    auto client = UnwindClient::open(std::move(ours_), kServedBytes, 16);
    ASSERT_TRUE(client) << client.error().what;
    client_.emplace(std::move(*client));
  }
  void serve() {
    thread_ = std::thread([this] { served_ = UnwindService().serve(theirs_.get()); });
  }
  // What serve() returned.
  [[nodiscard]] int end_of_service() {
    ours_.reset();
    client_.reset();
    if (thread_.joinable()) thread_.join();
    return served_ ? 0 : served_.error().errno_value();
  }
  // A file of the cache with a table of two functions: one with a caller at its stack pointer + 16, the outermost one.
  [[nodiscard]] UniqueFd table_file() const {
    CfiWriter cfi(kEhFrameAddress);
    cfi.add_fde(kCodeAddress, 0x100, bytes_of({0x0e, 24}));
    cfi.add_fde(kCodeAddress + 0x100, 0x100, bytes_of({0x07, 16}));
    TestElf elf;
    elf.eh_frame = cfi.bytes();
    const Bytes file = elf.build();
    const auto image = ElfImage::parse(FileBytes(file));
    auto cache = TableCache::open(folder_);
    EXPECT_TRUE(image && cache);
    if (!image || !cache) return {};
    const auto built = build_unwind_table(*image);
    EXPECT_TRUE(built && cache->put({.inode = 1}, built->bytes));
    return cache->find({.inode = 1});
  }
  // Of one sample.
  Result<BatchAnswer> ask(std::chrono::milliseconds limit = 60s) {
    BatchWriter batch(client_->memory(), Machine::x86_64, sample_register_mask(Machine::x86_64), ~std::uint64_t{0}, 1);
    const BatchMapping mapping{
        .begin = kServedCode, .end = kServedCode + kCodeBytes, .file_offset = kCodeOffset, .table = 0, .is_file = 1};
    EXPECT_TRUE(batch.add_space(std::span(&mapping, 1)));
    ServedWords registers(17);
    registers[7] = kServedStack, registers[8] = kServedPc;
    const ServedWords stack{0, 0, kServedCaller};
    EXPECT_TRUE(batch.add_sample({.space = 0,
                                  .registers = std::as_bytes(std::span(registers)),
                                  .kernel = {},
                                  .stack = std::as_bytes(std::span(stack))}));
    return client_->unwind(batch, 1, limit);
  }
  [[nodiscard]] bool is_wiped() const {
    const auto bytes = client_->memory();
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
  }
  // The memfds of flightd's first message.
  std::vector<UniqueFd> take_memory() {
    std::vector<UniqueFd> fds;
    const auto message = receive_unwind_message(theirs_.get(), fds);
    EXPECT_TRUE(message && message->kind == UnwindMessageKind::memory);
    EXPECT_EQ(fds.size(), 2U);
    fds.resize(2);
    return fds;
  }
  static BatchAnswer::Chain chain_of(const BatchAnswer& answer) {
    return answer.chain(0, kServedPc, [](std::uint64_t address) { return address != 0; });
  }

  std::string folder_;
  UniqueFd ours_, theirs_;
  std::optional<UnwindClient> client_;
  std::thread thread_;
  Result<void> served_;
};

TEST_F(UnwindServiceTest, ABatchIsAnsweredAndWiped) {
  serve();
  ASSERT_NO_FATAL_FAILURE(connect());
  const auto without = ask();
  ASSERT_TRUE(without) << without.error().what;
  EXPECT_EQ(chain_of(*without).status, UnwindStatus::no_file);
  EXPECT_TRUE(is_wiped());
  const UniqueFd table = table_file();
  ASSERT_TRUE(client_->set_table(0, table.get()));
  for (int i = 0; i < 3; ++i) {
    const auto answer = ask();
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_EQ(chain_of(*answer).status, UnwindStatus::complete);
    EXPECT_EQ(chain_of(*answer).pcs, (ServedWords{kServedPc, kServedCaller}));
    EXPECT_TRUE(is_wiped());
  }
  ASSERT_TRUE(client_->forget_table(0));
  const auto again = ask();
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(chain_of(*again).status, UnwindStatus::no_file);
  EXPECT_TRUE(client_->is_usable());
  EXPECT_EQ(end_of_service(), 0);
}

// Locked it is, or there is no client.
TEST_F(UnwindServiceTest, TheMemoryIsPrivate) {
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_TRUE(is_left_out_of_core(client_->memory().data()));
  const std::vector<UniqueFd> fds = take_memory();
  void* const readable = ::mmap(nullptr, kServedBytes, PROT_READ, MAP_SHARED, fds[0].get(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_NE(::mprotect(readable, kServedBytes, PROT_READ | PROT_WRITE), 0);
  ::munmap(readable, kServedBytes);
  EXPECT_EQ(::mmap(nullptr, kServedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0].get(), 0), MAP_FAILED);
  for (const UniqueFd& fd : fds) {
    EXPECT_NE(::ftruncate(fd.get(), 0), 0);
    EXPECT_NE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
}

TEST_F(UnwindServiceTest, SilenceIsAnErrorAfterTheLimit) {
  ASSERT_NO_FATAL_FAILURE(connect());
  const auto answer = ask(20ms);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().errno_value(), ETIMEDOUT) << answer.error().what;
  EXPECT_TRUE(is_wiped());
  EXPECT_FALSE(client_->is_usable()) << "a late answer would be taken for that to the next batch";
  const auto next = ask(20ms);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().errno_value(), ENOTCONN);
  EXPECT_TRUE(is_wiped());
}

TEST_F(UnwindServiceTest, TheEndOfTheUnwinderIsAnError) {
  ASSERT_NO_FATAL_FAILURE(connect());
  theirs_.reset();
  const auto answer = ask();
  ASSERT_FALSE(answer);
  EXPECT_FALSE(client_->is_usable());
  EXPECT_TRUE(is_wiped());
}

TEST_F(UnwindServiceTest, NonsenseIsAnErrorAndNoChain) {
  const std::vector<UnwindMessage> nonsense{UnwindMessage{.kind = UnwindMessageKind::table},
                                            UnwindMessage{.kind = UnwindMessageKind::answer, .answer_bytes = 1U << 30U},
                                            UnwindMessage{.kind = UnwindMessageKind::answer, .answer_bytes = 64},
                                            UnwindMessage{.kind = UnwindMessageKind::answer, .error = EINVAL}};
  for (const UnwindMessage& message : nonsense) {
    auto pair = socket_pair(SOCK_SEQPACKET);
    ASSERT_TRUE(pair) << pair.error().what;
    ours_ = std::move(pair->own);
    theirs_ = std::move(pair->other);
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_TRUE(send_unwind_message(theirs_.get(), message));
    const auto answer = ask();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().errno_value(), EBADMSG) << answer.error().what;
    EXPECT_FALSE(client_->is_usable());
    EXPECT_TRUE(is_wiped());
    client_.reset();
  }
}

TEST_F(UnwindServiceTest, TheUnwinderEndsAtAMessageThatItDoesNotUnderstand) {
  const UniqueFd unsealed = open_memfd("unsealed").value();
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  const std::array two{unsealed.get(), unsealed.get()};
  struct Sent {
    UnwindMessage message;
    std::span<const int> fds;
  };
  const std::array<Sent, 6> all{
      Sent{{.kind = UnwindMessageKind::memory, .bytes = 4096, .answer_bytes = 4096}, two},
      Sent{{.kind = UnwindMessageKind::memory, .bytes = 4096, .answer_bytes = 4096}, {}},
      Sent{{.kind = UnwindMessageKind::table, .number = kMaxBatchTables}, std::span(two).first(1)},
      Sent{{.kind = UnwindMessageKind::table, .number = 1}, {}},
      Sent{{.kind = UnwindMessageKind::unwind, .number = 0, .bytes = 1}, {}},
      Sent{{.kind = static_cast<UnwindMessageKind>(99)}, {}}};
  for (const Sent& sent : all) {
    auto pair = socket_pair(SOCK_SEQPACKET);
    ASSERT_TRUE(pair) << pair.error().what;
    ours_ = std::move(pair->own);
    theirs_ = std::move(pair->other);
    ASSERT_TRUE(send_unwind_message(ours_.get(), sent.message, sent.fds));
    const auto served = UnwindService().serve(theirs_.get());
    ASSERT_FALSE(served) << static_cast<unsigned>(sent.message.kind) << " " << sent.fds.size();
    EXPECT_EQ(served.error().errno_value(), EBADMSG) << served.error().what;
  }
}

// One that is not a table is as good as none, and a batch that is none is answered with an error.
TEST_F(UnwindServiceTest, TheUnwinderGoesOnAfterABadTableOrBatch) {
  serve();
  ASSERT_NO_FATAL_FAILURE(connect());
  const UniqueFd no_table(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(client_->set_table(0, no_table.get()));
  ASSERT_TRUE(client_->set_table(kMaxBatchTables - 1, no_table.get()));
  const auto answer = ask();
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_EQ(chain_of(*answer).status, UnwindStatus::no_file);
  // Of another number of tables than the batch says.
  BatchWriter batch(client_->memory(), Machine::x86_64, sample_register_mask(Machine::x86_64), ~std::uint64_t{0}, 1);
  const auto refused = client_->unwind(batch, 2, 60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EBADMSG);
  EXPECT_EQ(end_of_service(), 0);
}

}  // namespace
}  // namespace flight::test
