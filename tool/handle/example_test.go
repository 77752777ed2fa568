//go:build unix

package handle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// A command is a program that a model runs.
func ExampleNewCommand() {
	launcher, err := handle.OpenLauncher(nil) // with a folder of records, in a server
	if err != nil {
		log.Fatal(err)
	}
	defer launcher.Close()

	type input struct {
		Word string `json:"word" jsonschema:"What to count the letters of"`
	}
	count, err := handle.NewCommand(launcher,
		tool.Spec{Name: "count", Description: "Count letters.", Effect: tool.ReadOnly},
		func(_ context.Context, in input) (handle.Program, error) {
			return handle.Program{Path: "expr", Args: []string{"length", in.Word}}, nil
		}, nil)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := handle.Live(count, nil)
	if err != nil {
		log.Fatal(err)
	}

	got, err := counts.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"word":"fermata"}`)})
	fmt.Println(string(got.Output), err)
	// Output: {"exit_code":0,"output":"7\n"} <nil>
}
