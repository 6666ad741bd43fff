package bpf

// An Attachment identifies a program at a hook of a link, as data, so that a process other than the one that hooked it
// can remove it.
type Attachment struct {
	// Link and Index identify the network link.
	Link  string `json:"link"`
	Index int    `json:"index"`
	// ID is the kernel's number of the attachment (bpf_link, BPF_LINK_GET_FD_BY_ID of bpf(2)). It is 0 for a
	// [Classifier], which has none; a link has only one.
	ID uint32 `json:"id,omitempty"`
}
