package runtime

// UsualCapabilities are those that Docker leaves to root in a container (moby, oci/caps/defaults.go).
func UsualCapabilities() []string {
	return []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
}

// AllCapabilities are all that there are (capabilities(7)). Programs leave out those that they do not have themselves.
func AllCapabilities() []string {
	return append(UsualCapabilities(), "CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_BLOCK_SUSPEND", "CAP_BPF",
		"CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_LEASE",
		"CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_NET_BROADCAST", "CAP_PERFMON",
		"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_MODULE", "CAP_SYS_NICE", "CAP_SYS_PACCT", "CAP_SYS_PTRACE",
		"CAP_SYS_RAWIO", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_SYSLOG", "CAP_WAKE_ALARM")
}
