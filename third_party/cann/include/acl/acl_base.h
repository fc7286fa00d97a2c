// CANN's interface: what clients include by its older name, types, descriptions and data buffers.
#pragma once

#include "acl_op.h"
