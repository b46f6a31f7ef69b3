#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tensor_pch.h"
