// huggingface_tokenizer.py as a string, put in by CMake: the program needs no file beside it.
#pragma once

namespace trireme::train {

extern const char* const huggingface_script;

}  // namespace trireme::train
