// A library that clients of CANN name as needed and take no function from: libge_runner.
// It exists so that the dynamic linker finds it. libnnopbase and the like are made of it too, and lead on to what they depend on.
