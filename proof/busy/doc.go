// Package busy says whether packets may have been lost because of other work, by the kernel's own accounts. What was
// tried has no part in the answer: who drops some of the packets that have to pass has no excuse.
package busy
