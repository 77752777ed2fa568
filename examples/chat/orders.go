package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/tool"
)

// Cents is money.
type Cents int

func (c Cents) String() string { return fmt.Sprintf("%d.%02d €", c/100, c%100) }

type Order struct {
	Item   string `json:"item"`
	Cents  Cents  `json:"cents"`
	Status string `json:"status"`
}

var orders = map[string]Order{
	"1041": {"a teapot", 3450, "on its way"},
	"1042": {"a kettle", 2900, "delivered"},
	"1043": {"two cups", 1280, "delivered"},
}

func find(number string) (Order, error) {
	o, ok := orders[number]
	if !ok {
		return o, fmt.Errorf("there is no order %s; there are 1041, 1042 and 1043", number)
	}
	return o, nil
}

type GetOrderInput struct {
	Order string `json:"order" jsonschema:"description=The order's number,pattern=^[0-9]+$"`
}

// getOrder answers at once.
var getOrder = tool.Must(tool.Func(
	tool.Spec{Name: "get_order",
		Description: "Look up an order: what was bought, and for how much.", Effect: tool.ReadOnly},
	func(_ context.Context, in GetOrderInput) (tool.Result[Order], error) {
		return tool.Of(find(in.Order))
	}))

type AskUserInput struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices,omitempty" jsonschema:"description=The answers to choose from. Leave it out if any text will do"`
}

// askUser asks the person. The form of the answer is decided when it asks.
var askUser = tool.Must(tool.Func(
	tool.Spec{Name: "ask_user", Description: "Ask the user a question.", Effect: tool.ReadOnly,
		MayPause: true},
	func(_ context.Context, in AskUserInput) (tool.Result[string], error) {
		if len(in.Choices) == 0 {
			return tool.NeedInput[string](in.Question), nil
		}
		schema, err := json.Marshal(map[string]any{"type": "string", "enum": in.Choices})
		if err != nil {
			return nil, err
		}
		return tool.Pending[string](tool.Await{
			Reason: tool.ReasonInput, Prompt: in.Question, Schema: schema}), nil
	}))

type RefundInput struct {
	Order  string `json:"order" jsonschema:"description=The order's number,pattern=^[0-9]+$"`
	Cents  Cents  `json:"cents" jsonschema:"description=How much is paid back,minimum=1"`
	Reason string `json:"reason"`
}

type RefundOutput struct {
	Refund string `json:"refund"`
	Cents  Cents  `json:"cents"`
}

// refund moves money, which must not happen twice. Its effect is the default,
// tool.Once: after a crash its body is never entered again. It knows nothing of
// the approval, which is a layer around it.
var refund = tool.Must(tool.Func(
	tool.Spec{Name: "refund",
		Description: "Pay the price of an order back, or a part of it. The owner is asked first."},
	func(ctx context.Context, in RefundInput) (tool.Result[RefundOutput], error) {
		o, err := find(in.Order)
		if err != nil {
			return nil, err
		}
		if in.Cents > o.Cents {
			return nil, fmt.Errorf("order %s was only %v", in.Order, o.Cents)
		}
		// A payment service would be called here, and given the key.
		key := sha256.Sum256([]byte(tool.CallFrom(ctx).IdempotencyKey()))
		id := "R-" + hex.EncodeToString(key[:4])
		return tool.Done(RefundOutput{Refund: id, Cents: in.Cents}), nil
	}))
