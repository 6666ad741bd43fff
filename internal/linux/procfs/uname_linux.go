package procfs

import "golang.org/x/sys/unix"

// uname returns release and build of the kernel, as uname -r and -v print them.
func uname() (release, build string) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "", ""
	}
	return unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])
}
