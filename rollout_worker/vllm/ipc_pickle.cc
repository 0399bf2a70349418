#include "rollout_worker/vllm/ipc_pickle.h"

#include <string_view>

namespace buttress {
namespace {

// Writes a program for the stack machine of Python's pickle, protocol 3 (pickletools.py of CPython
// describes it). Each function pushes a value, except where it says otherwise.
class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x03"; }  // PROTO 3

  void Integer(std::int64_t value) {  // LONG1: length, then two's complement
    out_ += "\x8a\x08";
    LittleEndian(static_cast<std::uint64_t>(value), 8);
  }

  void False() { out_ += '\x89'; }  // NEWFALSE

  void Text(std::string_view text) { Counted('X', text); }  // BINUNICODE

  void Bytes(std::string_view bytes) { Counted('B', bytes); }  // BINBYTES

  // What `import module` finds under `name`; the reader calls find_class.
  void Global(const std::string& module, const std::string& name) {
    out_ += 'c' + module + '\n' + name + '\n';  // GLOBAL
  }

  void EmptyDict() { out_ += '}'; }  // EMPTY_DICT

  // Marks where the items of EndTuple or EndItems begin.
  void Mark() { out_ += '('; }  // MARK

  // Pops what came since the last mark, and pushes a tuple of it.
  void EndTuple() { out_ += 't'; }  // TUPLE

  // Pops pairs of key and value since the last mark, and puts them into the dict below it.
  void EndItems() { out_ += 'u'; }  // SETITEMS

  // Ends the program; its result is the top of the stack.
  std::string Finish() { return out_ + '.'; }  // STOP

 private:
  void Counted(char opcode, std::string_view bytes) {
    out_ += opcode;
    LittleEndian(bytes.size(), 4);
    out_ += bytes;
  }

  void LittleEndian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

  std::string out_;
};

// The arguments by position, in the order of rebuild_cuda_tensor.
void WriteArguments(const MappableBuffer& buffer, PickleWriter& pickle) {
  const auto tuple_of = [&](std::int64_t value) {
    pickle.Mark();
    pickle.Integer(value);
    pickle.EndTuple();
  };
  pickle.Mark();
  pickle.Global("torch", "Tensor");                // tensor_cls
  tuple_of(buffer.bytes);                          // tensor_size
  tuple_of(1);                                     // tensor_stride
  pickle.Integer(0);                               // tensor_offset
  pickle.Global("torch.storage", "TypedStorage");  // storage_cls
  pickle.Global("torch", "uint8");                 // dtype
  pickle.Integer(0);                               // storage_device; vLLM puts its own there
  pickle.Bytes(buffer.handle);                     // storage_handle
  pickle.Integer(buffer.bytes);                    // storage_size_bytes
  pickle.Integer(0);                               // storage_offset_bytes
  pickle.False();                                  // requires_grad
  // The counter tells torch's allocator when the memory is free, which here is not of it. The
  // reader ignores that there is no such file.
  pickle.Bytes("/buttress-without-counter");  // ref_counter_handle
  pickle.Integer(0);                          // ref_counter_offset
  // The bytes are there before the server is asked to read them.
  pickle.Bytes("");  // event_handle
  pickle.False();    // event_sync_required
  pickle.EndTuple();
}

}  // namespace

std::string PickleHandles(const std::vector<MappableBuffer>& buffers) {
  PickleWriter pickle;
  pickle.EmptyDict();
  pickle.Mark();
  for (const MappableBuffer& buffer : buffers) {
    pickle.Text(buffer.gpu_uuid);
    WriteArguments(buffer, pickle);
  }
  pickle.EndItems();
  return pickle.Finish();
}

}  // namespace buttress
