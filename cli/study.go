package cli

import "github.com/spf13/cobra"

func (a *app) studyCommand() *cobra.Command {
	return &cobra.Command{Use: "study", Hidden: true}
}
