package cli

import "testing"

// The command becomes a comment of one line above the experiment, but below the line that editors read.
func TestWithCommand(t *testing.T) {
	args := []string{"run", "--network", "nat,ovs(datapath=kernel)", "--set", "a=\n b"}
	const said = "# measured by: nettoll run --network 'nat,ovs(datapath=kernel)' --set 'a= b'\n"
	for source, want := range map[string]string{
		"":                  "",
		"name: x\n":         said + "name: x\n",
		"# a comment\na: b": said + "# a comment\na: b",
		"# yaml-language-server: $schema=x\nname: x\n": "# yaml-language-server: $schema=x\n" + said + "name: x\n",
	} {
		if got := withCommand(source, args); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
