package lxc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestProfile(t *testing.T) {
	absent := uint(38) // ENOSYS
	got := profile(&specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{
		{Names: []string{"read", "write"}, Action: specs.ActAllow},
		{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
			{Index: 0, Value: 0x7e020000, ValueTwo: 0, Op: specs.OpMaskedEqual},
		}},
		{Names: []string{"socket"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
			{Index: 0, Value: 3, Op: specs.OpLessThan}, {Index: 1, Value: 1, Op: specs.OpEqualTo},
		}},
		{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &absent},
	}})
	const want = `2
allowlist errno 1
[all]
read allow
write allow
clone allow [0,0,SCMP_CMP_MASKED_EQ,2114060288]
socket allow [0,3,SCMP_CMP_LT] [1,1,SCMP_CMP_EQ]
clone3 errno 38
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the profile (-want +got):\n%s", diff)
	}
}
