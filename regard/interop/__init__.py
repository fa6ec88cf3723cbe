"""Other engines and other formats: the names by which a user chooses."""

from typing import Literal

Engine = Literal["auto", "torch", "ctranslate2"]
"""What searches."""
Form = Literal["auto", "onnx", "ctranslate2", "huggingface", "word2vec"]
"""What a model is shipped as."""
Quantization = Literal["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"]
"""Numbers that CTranslate2 computes with."""
