// Package guest boots virtual machines with another kernel than this machine's, Debian's for clouds, so that what this
// one lacks can be tried all the same. [Prepare] makes the image of it from packages: the kernel as apt brings it,
// never installed, and programs as they are installed here. [Boot] starts a shell script in it.
//
// A guest is a program in memory: it has no disk and no network device, what it writes is gone when it ends, and it
// ends with this process. The processor is emulated (qemu's TCG), which takes no privilege and works inside other
// virtual machines, and is ten times slower and more: a guest shows what is right, and nothing of how fast it is.
package guest
