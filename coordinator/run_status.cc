// Coordinator::GetRunStatus: a question to the loop from within the process.
#include <chrono>
#include <memory>

#include "coordinator/coordinator.h"
#include "lib/base/thread/sync.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPatience(2000);

// What the asking thread and the loop share: either may leave first.
struct Question {
  Mutex mutex;
  CondVar changed;
  std::optional<Status> answer GUARDED_BY(mutex);
  v1::GetRunStatusResponse response;  // of the loop until there is an answer
};

class StatusRequest final : public LoopRequest {
 public:
  explicit StatusRequest(std::shared_ptr<Question> question) : question_(std::move(question)) {}

  std::optional<Status> Apply(Turn& turn, bool) override {
    FillRunStatus(turn, question_->response);
    return OkStatus();
  }

  bool only_reads() const override { return true; }

  bool cancelled() const override { return false; }

  void Answer(const Status& status) override {
    {
      MutexLock lock(question_->mutex);
      question_->answer = status;
      question_->changed.NotifyAll();
    }
    delete this;
  }

 private:
  const std::shared_ptr<Question> question_;
};

}  // namespace

Result<v1::GetRunStatusResponse> Coordinator::GetRunStatus() {
  const auto question = std::make_shared<Question>();
  auto request = std::make_unique<StatusRequest>(question);
  if (!loop_->Post(request.get())) return Unavailable("the coordinator has too many calls waiting");
  request.release();  // the loop answers it, and it deletes itself
  MutexLock lock(question->mutex);
  question->changed.WaitFor(question->mutex, kPatience, [&question]() REQUIRES(question->mutex) {
    return question->answer.has_value();
  });
  if (!question->answer) return DeadlineExceeded("the coordinator did not answer in two seconds");
  BUTTRESS_RETURN_IF_ERROR(*question->answer);
  return std::move(question->response);
}

}  // namespace buttress
