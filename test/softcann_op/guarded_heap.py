"""Builds guarded_heap.cpp."""
import os
import pathlib
import subprocess


def built_heap(folder):
    """guarded_heap.cpp as a library."""
    library = os.path.join(folder, "libguarded_heap.so")
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-o", library,
                    str(pathlib.Path(__file__).with_name("guarded_heap.cpp"))], check=True)
    return library
