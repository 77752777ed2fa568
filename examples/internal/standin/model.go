// Package standin stands in for a model in the examples: a script. Like a model it goes by the session's messages alone, and so is the
// same in every process.
package standin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// Deployer understands messages such as "deploy checkout v2.5.0 to production". It calls the tool deploy, get_weather if the
// message speaks of it, and ask_environment where the message doesn't say where to.
var Deployer llm.Model = fakellm.New(
	fakellm.When(said(environment), fakellm.From(deployAsSaid), fakellm.From(report)),
	fakellm.When(said(service), fakellm.Calls("ask_environment", `{}`), fakellm.From(deployAsSaid), fakellm.From(report)),
	fakellm.Says("I deploy services. Tell me which one, and which version.").Forever(),
)

var words = regexp.MustCompile(`(?i)deploy\s+(\S+)\s+(v\d+(?:[.-]\w+)*)(?:\s+to\s+(staging|production))?|$`)

// The groups of words.
const service, version, environment = 1, 2, 3

func order(r llm.Request) []string { return words.FindStringSubmatch(fakellm.LastUserText(r)) }

func said(group int) func(llm.Request) bool {
	return func(r llm.Request) bool { return order(r)[group] != "" }
}

// result is the i-th result of the calls that were made last.
func result(r llm.Request, i int) llm.ToolResult {
	return r.Messages[len(r.Messages)-1].Parts[i].(llm.ToolResult)
}

func deployAsSaid(r llm.Request) fakellm.Turn {
	o := order(r)
	where := strings.ToLower(o[environment])
	if where == "" {
		_ = json.Unmarshal(result(r, 0).Output, &where)
	}
	args, _ := json.Marshal(struct {
		Service     string `json:"service"`
		Version     string `json:"version"`
		Environment string `json:"environment"`
	}{o[service], o[version], where})
	turn := fakellm.Calls("deploy", string(args))
	if strings.Contains(strings.ToLower(fakellm.LastUserText(r)), "weather") {
		turn = turn.And("get_weather", `{"city":"Oslo"}`)
	}
	return turn
}

func report(r llm.Request) fakellm.Turn {
	if failed := result(r, 0); failed.Error {
		return fakellm.Says("It is not deployed. " + string(failed.Output))
	}
	var live struct {
		URL     string
		Seconds int
	}
	_ = json.Unmarshal(result(r, 0).Output, &live)
	said := fmt.Sprintf("Deployed: %s, after %d s.", live.URL, live.Seconds)
	if len(r.Messages[len(r.Messages)-1].Parts) > 1 {
		var oslo struct {
			TempC float64 `json:"temp_c"`
		}
		_ = json.Unmarshal(result(r, 1).Output, &oslo)
		said += fmt.Sprintf(" It has %.1f degrees in Oslo.", oslo.TempC)
	}
	return fakellm.Says(said)
}
