// The files of configs/kernels/ as they were when the program was built (cmake/KernelFiles.cmake).
#pragma once
#include <span>

namespace trireme::model {

struct KernelFile {
  const char* name = "";  // without its ending
  const char* text = "";
};
std::span<const KernelFile> kernel_files();  // in alphabetical order

}  // namespace trireme::model
