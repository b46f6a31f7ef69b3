# Debian 12's packages; scripts/setup.sh installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus QUIET)
find_path(TRIREME_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
if(TRIREME_WITH_TORCH)
  find_path(TRIREME_XXHASH_INCLUDE xxhash.h REQUIRED)  # checksums of checkpoints; header only
endif()

add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-restrict
                       -fno-math-errno -fpch-preprocess)
find_program(TRIREME_MOLD mold)
if(TRIREME_MOLD)
  target_link_options(trireme_flags INTERFACE -fuse-ld=mold)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(trireme_flags INTERFACE -fsanitize=address,undefined)
endif()
if(TRIREME_POISON)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_POISON=1)
endif()

add_library(trireme_deps INTERFACE)
target_link_libraries(trireme_deps INTERFACE Threads::Threads fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json)
target_include_directories(trireme_deps SYSTEM INTERFACE ${TRIREME_TOMLPLUSPLUS_INCLUDE})
target_compile_definitions(trireme_deps INTERFACE TOML_HEADER_ONLY=1)

# Tokenizers of `train`; without it only bytes and ready-made token files.
find_library(TRIREME_SENTENCEPIECE sentencepiece)
find_library(TRIREME_SENTENCEPIECE_TRAIN sentencepiece_train)
find_path(TRIREME_SENTENCEPIECE_INCLUDE sentencepiece_processor.h)
add_library(trireme_sentencepiece INTERFACE)
if(TRIREME_SENTENCEPIECE AND TRIREME_SENTENCEPIECE_TRAIN AND TRIREME_SENTENCEPIECE_INCLUDE)
  target_link_libraries(trireme_sentencepiece INTERFACE ${TRIREME_SENTENCEPIECE_TRAIN} ${TRIREME_SENTENCEPIECE})
  target_include_directories(trireme_sentencepiece SYSTEM INTERFACE ${TRIREME_SENTENCEPIECE_INCLUDE})
  # On the one file: a definition on the whole folder would invalidate the shared precompiled header.
  set_source_files_properties(src/train/data/sentencepiece.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                              COMPILE_DEFINITIONS TRIREME_WITH_SENTENCEPIECE=1)
else()
  message(STATUS "SentencePiece not found (libsentencepiece-dev): `trireme data` will know bytes only")
endif()
set(TRIREME_EXTERNAL_train trireme_sentencepiece)
