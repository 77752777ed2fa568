module github.com/fermata-ai/fermata/provider/anthropic

go 1.25.0

replace github.com/fermata-ai/fermata => ../..

require (
	github.com/anthropics/anthropic-sdk-go/v2 v2.15.0
	github.com/fermata-ai/fermata v0.0.0
	go.uber.org/goleak v1.3.0
)
