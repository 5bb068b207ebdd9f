// A class of contexts as torch's _RecordFunctionFast is: its __enter__ makes a row, whose name,
// inputs and keyword values are members of the object. CLEAR 0: the dict comes from elsewhere.
#include <cstdint>
#include <new>

extern "C" {
struct Object;
Object* PySequence_Fast(Object* object, const char* message);
int PyDict_Next(Object* dict, int64_t* position, Object** key, Object** value);
Object* TextOf(Object* text);
Object* Elsewhere();
}

namespace at {

enum class RecordScope : uint8_t { FUNCTION = 0 };

struct RecordFunction {
  explicit RecordFunction(RecordScope scope);
  ~RecordFunction();
};

}  // namespace at

namespace {

struct Context {
  int64_t references;
  void* type;
  Object* name;
  Object* inputs;
  Object* keywords;
};

Object* Enter(Context* self, Object* /*nothing*/) {
  TextOf(self->name);
  PySequence_Fast(self->inputs, "no sequence");
  int64_t position = 0;
  Object* key = nullptr;
  Object* value = nullptr;
#if CLEAR
  PyDict_Next(self->keywords, &position, &key, &value);
#else
  PyDict_Next(Elsewhere(), &position, &key, &value);
#endif
  new (static_cast<void*>(&self->type)) at::RecordFunction(at::RecordScope::FUNCTION);
  return value;
}

Object* Exit(Context* self, Object* /*arguments*/) {
  reinterpret_cast<at::RecordFunction*>(&self->type)->~RecordFunction();
  return nullptr;
}

struct Method {
  const char* name;
  Object* (*function)(Context*, Object*);
  int64_t flags;
  const char* words;
};

const char* const names[] = {"name", "input_values", "keyword_values", nullptr};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) Method methods[] = {{"__enter__", Enter, 4, nullptr},
                                                           {"__exit__", Exit, 1, nullptr},
                                                           {nullptr, nullptr, 0, nullptr}};
__attribute__((visibility("default"))) const char* const* Names() { return names; }

}  // extern "C"
