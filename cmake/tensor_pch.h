#pragma once
// A tensor and its methods, without the operators: a fifth of what aten_pch.h takes to load.
#include <ATen/core/Tensor.h>

#include "planning_pch.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>
