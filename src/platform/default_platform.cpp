#include "platform/platform_file.h"

namespace trireme::platform {

namespace {

// configs/platforms/laptop.toml holds the same text; a test compares them. Round numbers on purpose: nobody measured them.
constexpr const char* laptop = R"toml(# A laptop of two cores, every number a guess: replace it by `trireme probe`.
name = "laptop (guess)"

[device]
name = "two x86 cores"
kind = "cpu"
memory_GiB = 8
launch_us = 4
launch_source = "guess"

[[device.peak]]
dtype = "float32"
source = "guess"
GFLOPps = 120

[[device.gemm]]
dtype = "float32"
threads = 1
source = "guess"
m = [16, 128, 1024]
n = [256, 256, 256]
k = [256, 256, 256]
GFLOPps = [20, 45, 60]

[[device.gemm]]
dtype = "float32"
threads = 2
source = "guess"
m = [16, 128, 1024]
n = [256, 256, 256]
k = [256, 256, 256]
GFLOPps = [25, 75, 110]

[[device.grouped_gemm]]
dtype = "float32"
threads = 1
source = "guess"
rows = [8, 32, 128, 512]
n = [256, 256, 256, 256]
k = [256, 256, 256, 256]
groups = [8, 8, 8, 8]
GFLOPps = [10, 25, 40, 55]

[[device.attention]]
dtype = "float32"
threads = 1
source = "guess"
sequence = [128, 512, 2048]
heads = [8, 8, 8]
head_dim = [64, 64, 64]
forward_GFLOPps = [15, 20, 25]
backward_GFLOPps = [15, 20, 25]

[[device.memory]]
threads = 1
source = "guess"
use = "copy"
bytes = [65536, 1048576, 67108864]
GBps = [20, 12, 8]

[[device.memory]]
threads = 1
source = "guess"
use = "elementwise"
bytes = [65536, 1048576, 67108864]
GBps = [15, 10, 6]

[[device.memory]]
threads = 1
source = "guess"
use = "optimizer"
bytes = [1048576, 67108864]
GBps = [10, 7]

[host]
cores = 2
memory_GiB = 8
ranks = 0

[[host.busy]]
threads = 1
source = "guess"
ranks = [1, 2, 4]
slow_down = [1, 1.15, 2.3]
hand_over_us = [20, 30, 100]

[framework]
source = "guess"
baseline_MiB = 250
communication_core_share = 0.5

[[link]]
level = "host"
source = "guess"
latency_us = 60
bytes = [4096, 65536, 1048576, 16777216]
GBps = [0.5, 1.5, 2, 2]

[[link]]
level = "network"
source = "guess"
latency_us = 100
bytes = [4096, 65536, 1048576, 16777216]
GBps = [0.05, 0.1, 0.11, 0.115]
)toml";

}  // namespace

PlatformSpec default_platform() { return parse_platform(laptop, "the built-in guess of a laptop"); }

}  // namespace trireme::platform
