"""acl.blas: matrix products, where the CANN in use has libacl_cblas (softcann has not: use a model, or torch_npu's matmul)."""
from ._binding import Table

_TABLE = Table("acl.blas", ("libacl_cblas.so",), """
gemm_ex aclblasGemmEx i32 i32 i32 i32 i32 i32 ptr ptr i32 i32 ptr i32 i32 ptr ptr i32 i32 i32 ptr
gemv_ex aclblasGemvEx i32 i32 i32 ptr ptr i32 i32 ptr i32 i32 ptr ptr i32 i32 i32 ptr
""")


def __getattr__(name):
    return _TABLE.attribute(name)


def __dir__():
    return _TABLE.names()
