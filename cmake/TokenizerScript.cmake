# The script that runs Hugging Face's tokenizers as a source file, so that the program works wherever it is installed.
set(script ${CMAKE_SOURCE_DIR}/src/train/data/huggingface_tokenizer.py)
file(READ ${script} HUGGINGFACE_SCRIPT_TEXT)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
set(TRIREME_HUGGINGFACE_SCRIPT_SOURCE ${CMAKE_BINARY_DIR}/generated/huggingface_script.cpp)
configure_file(${CMAKE_SOURCE_DIR}/cmake/huggingface_script.cpp.in ${TRIREME_HUGGINGFACE_SCRIPT_SOURCE} @ONLY)
