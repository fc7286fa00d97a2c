"""acl.blas: matrix products by libacl_cblas, of operators GEMM that were loaded by acl.op.set_model_dir or acl.op.load."""
from ._binding import Table

_TABLE = Table("acl.blas", ("libacl_cblas.so",), """
gemm_ex create_handle_for_gemm_ex create_handle_for_gemv_ex create_handle_for_hgemm create_handle_for_hgemv
create_handle_for_s8gemm create_handle_for_s8gemv gemv_ex
s8gemm aclblasS8gemm i32 i32 i32 i32 i32 i32 ptr ptr i32 ptr i32 ptr ptr i32 i32 ptr
s8gemv aclblasS8gemv i32 i32 i32 ptr ptr i32 ptr i32 ptr ptr i32 i32 ptr
hgemm aclblasHgemm i32 i32 i32 i32 i32 i32 ptr ptr i32 ptr i32 ptr ptr i32 i32 ptr
hgemv aclblasHgemv i32 i32 i32 ptr ptr i32 ptr i32 ptr ptr i32 i32 ptr
""")
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names
