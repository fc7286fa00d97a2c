// A library that clients of CANN name as needed and take no function from: libge_runner, libgraph, libacl_tdt_channel.
// It exists so that the dynamic linker finds it. libnnopbase is made of it too, and leads on to libopapi.
