/* Made by tests/browser/types.js of the API's document; ./test browser fails where it is not that of the host. */
export interface paths {
    "/api/auth/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            email: string;
                            firstName: string;
                            lastName: string;
                            /** @enum {string} */
                            role: "Admin" | "OrganizationAdmin" | "DeviceOwner" | "Buyer" | "User" | "ApiUser";
                            /** @enum {string} */
                            status: "Pending" | "Active" | "Suspended" | "Deleted";
                            organizationId: number | null;
                            createdAt: string;
                            organizationIds: number[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/clients": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            client_id: string;
                            name: string;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                201: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            client_id: string;
                            client_secret: string;
                            name: string;
                            createdAt: string;
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/admin/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            email: string;
                            firstName: string;
                            lastName: string;
                            /** @enum {string} */
                            role: "Admin" | "OrganizationAdmin" | "DeviceOwner" | "Buyer" | "User" | "ApiUser";
                            /** @enum {string} */
                            status: "Pending" | "Active" | "Suspended" | "Deleted";
                            organizationId: number | null;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/admin/organizations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            name: string;
                            type: string;
                            address: string | null;
                            apiUserId: number | null;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/conversations/user/{email}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            participant1: string;
                            participant2: string;
                            headUuid: string;
                            lastEntryUuid: string;
                            deviceProjectName: string | null;
                            unread1?: number;
                            unread2?: number;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/chain/{headUuid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            uuid: string;
                            username: string;
                            chatEntry: string;
                            nextEntryUuid: string | null;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            userId: number;
                            url: string;
                            events: string[];
                            secret: string;
                            active: boolean;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/webhooks/statistics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            delivered: number;
                            abandoned: number;
                            queued: number;
                            durationMs: number | null;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/webhooks/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            event: string;
                            eventId: string;
                            /** @enum {string} */
                            status: "queued" | "delivered" | "abandoned";
                            createdAt: string;
                            nextAttemptAt: string | null;
                            attempts: {
                                number: number;
                                at: string;
                                status: number | null;
                                durationMs: number;
                                error: string | null;
                                answer: string | null;
                            }[];
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/webhooks/{id}/deliveries/{deliveryId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            event: string;
                            eventId: string;
                            /** @enum {string} */
                            status: "queued" | "delivered" | "abandoned";
                            createdAt: string;
                            nextAttemptAt: string | null;
                            attempts: {
                                number: number;
                                at: string;
                                status: number | null;
                                durationMs: number;
                                error: string | null;
                                answer: string | null;
                            }[];
                            body: string;
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/chat/webhooks/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            success: boolean;
                            status: number | null;
                            durationMs: number;
                            error: string | null;
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/device/{externalId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            uuid: string;
                            externalId: string | null;
                            siteName: string | null;
                            countryCode: string | null;
                            commissioningDate: string | null;
                            capacity: number | null;
                            address: string | null;
                            latitude: string | null;
                            longitude: string | null;
                            fuelCode: string | null;
                            deviceTypeCode: string | null;
                            serialNumber: string | null;
                            timezone: string | null;
                            yieldValue: number | null;
                            organizationId: number;
                            /** @enum {string} */
                            status: "Active" | "Inactive";
                            attributes: Record<string, never>;
                            documents: {
                                id: string;
                                field: string;
                                name: string;
                                type: string;
                                size: number;
                                createdAt: string;
                            }[];
                            createdAt: string;
                            updatedAt: string;
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/device/{externalId}/documents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: string;
                            field: string;
                            name: string;
                            type: string;
                            size: number;
                            createdAt: string;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/meter-reads/new/{externalId}/totals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            startDate: string;
                            endDate: string;
                            value: number;
                            unit: string;
                            reads: number;
                            ceiling: number | null;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/device/{externalId}/coverage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            deviceId: number;
                            externalId: string | null;
                            from: string;
                            to: string;
                            sums: {
                                /** @enum {string} */
                                reason: "certified" | "carried" | "belowThreshold" | "cycleNotEnded" | "notIssuedYet" | "noReading" | "inNoGroup" | "beforeGroup" | "longerThanCycle" | "aboveCeiling" | "refused" | "voided";
                                reads: number;
                                value: number;
                                unit: string;
                            }[];
                            gaps: {
                                startDate: string;
                                endDate: string;
                            }[];
                            notCertified: {
                                /** @enum {string} */
                                type: "History" | "Delta";
                                startDate: string;
                                endDate: string;
                                value: number;
                                unit: string;
                                /** @enum {string} */
                                reason: "certified" | "carried" | "belowThreshold" | "cycleNotEnded" | "notIssuedYet" | "noReading" | "inNoGroup" | "beforeGroup" | "longerThanCycle" | "aboveCeiling" | "refused" | "voided";
                                entries: {
                                    certificateTransactionUID: string;
                                    /** @enum {string} */
                                    status: "Requested" | "Succeeded" | "Failed" | "Retry" | "Cancelled" | "Carried";
                                    readvalue_watthour: number;
                                }[];
                            }[];
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/certificate-log/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            deviceId: number;
                            externalId: string | null;
                            /** @enum {string} */
                            reason: "certified" | "carried" | "belowThreshold" | "cycleNotEnded" | "notIssuedYet" | "noReading" | "inNoGroup" | "beforeGroup" | "longerThanCycle" | "aboveCeiling" | "refused" | "voided";
                            explanation: string;
                            group: {
                                id: number;
                                name: string;
                                /** @enum {string} */
                                frequency: "hourly" | "daily" | "weekly" | "monthly" | "quarterly" | "yearly";
                                start: string;
                                end: string | null;
                            } | null;
                            cycle: {
                                start: string;
                                end: string;
                                ended: boolean;
                            } | null;
                            readings: {
                                /** @enum {string} */
                                type: "History" | "Delta";
                                startDate: string;
                                endDate: string;
                                value: number;
                                unit: string;
                                /** @enum {string} */
                                reason: "certified" | "carried" | "belowThreshold" | "cycleNotEnded" | "notIssuedYet" | "noReading" | "inNoGroup" | "beforeGroup" | "longerThanCycle" | "aboveCeiling" | "refused" | "voided";
                                entries: {
                                    certificateTransactionUID: string;
                                    /** @enum {string} */
                                    status: "Requested" | "Succeeded" | "Failed" | "Retry" | "Cancelled" | "Carried";
                                    readvalue_watthour: number;
                                }[];
                                covers: boolean;
                            }[];
                            discarded: {
                                /** @enum {string} */
                                what: "refused" | "voided";
                                /** @enum {string|null} */
                                type: "History" | "Delta" | null;
                                startDate: string | null;
                                endDate: string | null;
                                value: number | null;
                                unit: string;
                                at: string;
                                problem: string;
                            }[];
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/certificate-log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            id: number;
                            certificate_issuance_start: string;
                            certificate_issuance_end: string;
                            readvalue_watthour: number;
                            /** @enum {string} */
                            status: "Requested" | "Succeeded" | "Failed" | "Retry" | "Cancelled" | "Carried";
                            externalId: string | null;
                            developerId: string | null;
                            serialNumber: string | null;
                            deviceId: number;
                            groupId: number | null;
                            certificateTransactionUID: string;
                            timezone: string | null;
                            ongoing_start_date: string | null;
                            ongoing_end_date: string | null;
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/bulk-upload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            bulkUploadId: string;
                            /** @enum {string} */
                            status: "created" | "confirmed" | "finished" | "cancelled";
                            reason: string | null;
                            type: string;
                            fileName: string;
                            organizationId: number;
                            check: {
                                passed: number;
                                failed: number;
                                warned: number;
                            };
                            progress: {
                                done: number;
                                total: number;
                                succeeded: number;
                                failed: number;
                            };
                            createdAt: string;
                            confirmedAt: string | null;
                            endedAt: string | null;
                            rows: number;
                            warnings?: string[];
                        }[];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/bulk-upload/bulk-upload-log/{bulkUploadId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            bulkUploadId: string;
                            /** @enum {string} */
                            status: "created" | "confirmed" | "finished" | "cancelled";
                            reason: string | null;
                            type: string;
                            fileName: string;
                            organizationId: number;
                            check: {
                                passed: number;
                                failed: number;
                                warned: number;
                            };
                            progress: {
                                done: number;
                                total: number;
                                succeeded: number;
                                failed: number;
                            };
                            createdAt: string;
                            confirmedAt: string | null;
                            endedAt: string | null;
                            rows: {
                                rowNumber: number;
                                externalId: string | null;
                                /** @enum {string} */
                                status: "pending" | "success" | "failed" | "cancelled";
                                errors: {
                                    field: string;
                                    problem: string;
                                }[];
                                warnings: {
                                    field: string;
                                    problem: string;
                                }[];
                            }[];
                            warnings?: string[];
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Error: {
            statusCode: number;
            message: string;
            error: string;
            requestId: string;
            errors?: {
                field: string;
                problem: string;
            }[];
            success?: boolean;
            error_description?: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
