package bpf

// An Attachment is a program at a hook of a link, as data: another process than the one that hooked it can take it
// away.
type Attachment struct {
	// Link and Index are the network link.
	Link  string `json:"link"`
	Index int    `json:"index"`
	// ID is the kernel's number of the attachment (bpf_link, BPF_LINK_GET_FD_BY_ID of bpf(2)); 0 for a [Classifier],
	// which has none: there is one on a link.
	ID uint32 `json:"id,omitempty"`
}
