// Makes a SentencePiece model from the documents of text files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/data/data_progress.h"
#include "train/data/documents.h"

namespace trireme::train {

struct SentencePieceTraining {
  std::vector<std::filesystem::path> inputs;  // files and folders
  DocumentOptions documents;
  std::filesystem::path model;     // written here
  std::int64_t vocab_size = 4096;  // bytes, specials and pieces
  std::string kind = "bpe";        // bpe | unigram
  std::int64_t sample_bytes =
      20 << 20;  // of text, at most: lines of documents, drawn at random and the same every time
};

// ConfigError where train_sentencepiece would refuse the options, before it reads anything.
void check_sentencepiece_training(const SentencePieceTraining& options);

// Lossless: no normalisation, spaces and line ends kept, unknown characters as bytes.
void train_sentencepiece(const SentencePieceTraining& options, const ShowProgress& show = {});

}  // namespace trireme::train
